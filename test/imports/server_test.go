package imports

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/test/raw"
)

// programs are the programs by which clients start servers. This test binary is a server under each of these names.
var programs = []string{"npx", "uvx", "node", "python", "python3", "docker"}

// isProgram reports whether this process is a server that vmcp has started.
func isProgram() bool { return slices.Contains(programs, filepath.Base(os.Args[0])) }

// A witness has the data that a server got: from its start or from a request.
type witness struct {
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Path    string            `json:"path,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// serveWho is a server with a tool that returns its witness, and one that filters hide.
func serveWho(tell func(*raw.Call) witness) *raw.Server {
	s := &raw.Server{}
	s.Handle = func(c *raw.Call) (string, error) {
		switch c.Method {
		case "tools/list":
			return s.List("tools", `{"name":"who","inputSchema":{"type":"object"}}`, `{"name":"hidden","inputSchema":{"type":"object"}}`), nil
		case "tools/call":
			text, err := json.Marshal(tell(c))
			return fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text), err
		}
		return "", raw.ErrDefault
	}
	return s
}

// beProgram serves standard input and output.
func beProgram() error {
	w := witness{Args: os.Args[1:], Env: map[string]string{}}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		w.Env[name] = value
	}
	return serveWho(func(*raw.Call) witness { return w }).ServeStdio(os.Stdin, os.Stdout)
}

// site is a server at every path of a URL.
func site(t *testing.T) (url string) {
	const at = "X-Test-Path"
	s := serveWho(func(c *raw.Call) witness {
		w := witness{Path: c.Header.Get(at), Headers: map[string]string{}}
		for name := range c.Header {
			w.Headers[name] = c.Header.Get(name)
		}
		return w
	})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(at, r.URL.Path)
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h.URL
}
