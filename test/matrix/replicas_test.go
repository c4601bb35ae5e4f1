package matrix

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/replicas"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// TestMatrixThroughReplicas: the features of one process work with three replicas behind a balancer that does not parse MCP, too. Backends
// over standard input and output are left out: each replica starts its own process of them.
func TestMatrixThroughReplicas(t *testing.T) {
	testmode.NeedThorough(t)
	document, err := os.ReadFile("../../docs/matrix.md")
	if err != nil {
		t.Fatal(err)
	}
	bin, err := rig.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range backends {
		if b.transport == "stdio" {
			continue
		}
		t.Run(b.String(), func(t *testing.T) {
			for _, line := range rowsOfReplicas(t, b, bin) {
				if !strings.Contains(string(document), line+"\n") {
					t.Errorf("through three replicas: %s: docs/matrix.md has another line", line)
				}
			}
		})
	}
}

// rowsOfReplicas is rows for the clients over HTTP, in front of three replicas.
func rowsOfReplicas(t *testing.T, b peer, bin string) (lines []string) {
	cfg, restart := b.backendConfig(t)
	transport := "streamable-http"
	if b.transport == "sse" {
		transport = "sse"
	}
	front := replicas.Serve(t, bin, fmt.Sprintf("backends: [{name: matrix, url: %q, transport: %s}]", cfg.URL, transport))
	var sessions []*client
	var peers []peer
	for _, p := range clients {
		if p.transport == "http" {
			peers = append(peers, p)
			sessions = append(sessions, p.connect(t, &mcp.StreamableClientTransport{Endpoint: front.URL}))
		}
	}
	for i, p := range peers {
		line := fmt.Sprintf("| %v | %v |", p, b)
		for _, f := range features {
			line += cell(t, f, sessions[i], p, b)
		}
		lines = append(lines, line)
	}
	restart(t, sessions[0])
	for i, p := range peers {
		lines[i] += mark(t, fmt.Sprintf("client %v, restart", p), checkRestart(t, sessions[i]))
	}
	for i, n := range front.Counts() {
		if n == 0 {
			t.Errorf("replica %d got no request", i)
		}
	}
	return lines
}
