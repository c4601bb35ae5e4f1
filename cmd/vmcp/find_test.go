package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// Clients of an endpoint with a certificate use TLS, and trust the certificate that its configuration or
// --ca-file names, also when that is for another host name.
func TestToolsOverTLS(t *testing.T) {
	testmode.NeedThorough(t)
	dir, ca := t.TempDir(), testkit.NewAuthority(t)
	t.Setenv("HOME", t.TempDir())
	byAddress, addressKey := issue(t, ca, dir, "server", "")
	byName, nameKey := testkit.SelfSigned(t, dir, "mcp.example.com")
	root := filepath.Join(dir, "ca.pem")
	ca.WriteCert(t, root)
	for _, tt := range []struct{ name, cert, key string }{{"address", byAddress, addressKey}, {"name", byName, nameKey}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newReader(t)
			r.write(defaultFile, fmt.Sprintf("tls: {cert: %s, key: %s}\nbackends: [{name: files, command: workspace}]\n", tt.cert, tt.key))
			r.startServe(t)
			ask := func(want string, arguments ...string) {
				t.Helper()
				c := exec.Command("vmcp", append([]string{"tools"}, arguments...)...)
				c.Dir = r.dir
				said, _ := c.CombinedOutput() // it may fail: only the output matters
				if !strings.Contains(string(said), want) {
					t.Errorf("%v says\n%s\nwant %s", c.Args, said, want)
				}
			}
			ask("files.list_files")
			there := "https://127.0.0.1:" + r.port
			ask("--ca-file", "--url", there)
			if tt.name == "address" {
				ask("files.list_files", "--url", there, "--ca-file", root)
			}
			ask("no such file", "--url", there, "--ca-file", filepath.Join(dir, "nowhere.pem"))
			ask("no certificates", "--url", there, "--ca-file", tt.key)
		})
	}
}

// startServe starts a server with the reader's configuration.
func (r *reader) startServe(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	r.must(err)
	defer out.Close()
	r.log = out.Name()
	r.server = exec.Command("vmcp", "serve")
	r.server.Dir, r.server.Stderr = r.dir, out
	r.must(r.server.Start())
	r.wait("the server is up", func() bool { return strings.Contains(r.logged(), "backend files:") })
}

// TestAnotherServerIsToldInALine: the HTML page of another server is not printed as a message.
func TestAnotherServerIsToldInALine(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<!DOCTYPE html>\n<html>\n<body>Nothing here</body>\n</html>\n")
	}))
	defer other.Close()
	for _, args := range [][]string{{"status"}, {"logs", "x"}, {"describe", "x"}} {
		var out, errs strings.Builder
		code := runContext(t.Context(), append(args, "--url", other.URL+"/mcp"), strings.NewReader(""), &out, &errs)
		if said := errs.String(); code != 1 || strings.Contains(said, "<") || !strings.HasPrefix(said, "vmcp: "+other.URL+": 404 Not Found\nvmcp: hint: ") {
			t.Errorf("vmcp %s exits with %d and says\n%s", strings.Join(args, " "), code, said)
		}
	}
}
