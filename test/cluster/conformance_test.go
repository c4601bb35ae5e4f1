//go:build npm && suites

package cluster

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/replicas"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// TestConformance: every check of the official suites that passes through one process passes through three replicas behind a balancer.
func TestConformance(t *testing.T) {
	testmode.NeedThorough(t)
	t.Parallel()
	fixture, err := rig.Fixture(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bin, err := rig.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, stateless := range map[string]bool{"http": false, "stateless": true} {
		t.Run(name, func(t *testing.T) {
			port, err := rig.Port()
			if err != nil {
				t.Fatal(err)
			}
			addr := fmt.Sprintf("127.0.0.1:%d", port)
			p, err := rig.Start(io.Discard, fixture, "-http", addr, fmt.Sprintf("-stateless=%t", stateless))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Kill()
			if err := p.AwaitHTTP(t.Context(), "http://"+addr+"/mcp"); err != nil {
				t.Fatal(err)
			}
			front := replicas.Serve(t, bin, fmt.Sprintf("name: conformance\nbackends: [{name: fixture, url: \"http://%s/mcp\"}]", addr))
			cmd := exec.CommandContext(t.Context(), "go", "run", "../conformance", "-backend", name, "-front", strings.TrimSuffix(strings.TrimPrefix(front.URL, "http://"), "/mcp"))
			out, err := cmd.CombinedOutput()
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "through the proxy") {
					t.Log(strings.TrimSpace(line))
				}
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
