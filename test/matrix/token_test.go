package matrix

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/auth"
)

// bearer sends a token with every request of a client.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultClient.Transport.RoundTrip(r) // see testmode
}

// All features work for authenticated clients: every feature once more, each
// client with another token.
func TestMatrixWithTokens(t *testing.T) {
	for _, b := range []peer{{"2025-11-25", "http"}, {modern, "http"}} {
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			backend, _ := b.backendConfig(t)
			file := filepath.Join(t.TempDir(), "tokens.yaml")
			tokens := map[peer]string{}
			for _, p := range clients {
				var err error
				if tokens[p], err = auth.NewToken(file, auth.Token{Name: strings.ReplaceAll(p.String(), " ", "-")}); err != nil {
					t.Fatal(err)
				}
			}
			vmcp := newProxyOf(t, &config.Config{
				Name: "matrix", Backends: []config.Backend{backend},
				IncomingAuth: config.IncomingAuth{Type: "tokens", Tokens: config.StaticTokens{File: file}},
			})
			for _, p := range clients {
				if p.transport == "stdio" {
					continue // its token is checked before anything is served
				}
				to := p.transportTo(t, vmcp).(*mcp.StreamableClientTransport)
				to.HTTPClient = &http.Client{Transport: bearer(tokens[p])}
				c := p.connect(t, to)
				if err := checkRestart(t, c); err != nil { // it has to start, once
					t.Fatal(err)
				}
				for _, f := range features {
					cell(t, f, c, p, b)
				}
			}
		})
	}
}
