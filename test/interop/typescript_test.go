//go:build npm

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"strconv"
	"testing"

	"github.com/vmcp-dev/vmcp/test/rig"
)

// outcome is one line that client.mjs prints.
type outcome struct {
	Check string
	OK    bool
	Got   json.RawMessage
}

// runTypeScript runs client.mjs, with a subtest for each of its checks.
func runTypeScript(t *testing.T, args ...string) {
	t.Helper()
	var out, log bytes.Buffer
	cmd := exec.CommandContext(deadline(t), npm.Node(), append([]string{"client.mjs", npm.Dir()}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	checks := 0
	for lines := bufio.NewScanner(&out); lines.Scan(); checks++ {
		var o outcome
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		t.Run(o.Check, func(t *testing.T) {
			if !o.OK {
				t.Errorf("got %s", o.Got)
			}
		})
	}
	if err != nil || checks == 0 {
		t.Errorf("client.mjs: %v after %d checks\n%s", err, checks, log.Bytes())
	}
}

func TestTypeScriptClient(t *testing.T) {
	port, err := rig.Port()
	if err != nil {
		t.Fatal(err)
	}
	everythingHTTP(t, port)
	for name, backend := range map[string]string{
		"server over stdio": stdio("everything", "everything", "stdio"),
		"server over http":  remote("everything", port),
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("direct", func(t *testing.T) {
				if name == "server over http" {
					runTypeScript(t, "http", "http://127.0.0.1:"+strconv.Itoa(port)+"/mcp")
				} else {
					runTypeScript(t, "stdio", npm.Node(), script("everything"), "stdio")
				}
			})
			t.Run("client over http", func(t *testing.T) { runTypeScript(t, "http", serve(t, backend)) })
			t.Run("client over stdio to the endpoint", func(t *testing.T) {
				runTypeScript(t, "stdio", vmcp, "serve", "--stdio", "--url", serve(t, backend))
			})
			t.Run("client over stdio", func(t *testing.T) {
				runTypeScript(t, "stdio", vmcp, "serve", "--stdio", "--config", configure(t, backend))
			})
		})
	}
}
