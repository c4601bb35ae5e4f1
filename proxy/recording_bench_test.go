package proxy_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy"
	wiretest "github.com/vmcp-dev/vmcp/test/raw"
)

// BenchmarkRecording runs a script that calls three tools in sequence: without recording, with recording of failures
// (there are none), and with recording of everything.
func BenchmarkRecording(b *testing.B) {
	for _, only := range []string{"", "failed", "all"} {
		b.Run("only="+only, func(b *testing.B) { benchmarkRecording(b, only) })
	}
}

func benchmarkRecording(b *testing.B, only string) {
	dir := b.TempDir() // is removed when the proxy is closed
	backend := httptest.NewServer(&wiretest.Server{Handle: func(c *wiretest.Call) (string, error) {
		switch c.Method {
		case wire.ToolsList:
			return `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`, nil
		case wire.ToolsCall:
			return `{"content":[],"structuredContent":{"id":"A1","text":"` + strings.Repeat("x", 1000) + `"}}`, nil
		}
		return "", wiretest.ErrDefault
	}})
	b.Cleanup(backend.Close)
	p := proxy.New(proxy.Options{})
	b.Cleanup(func() { p.Close() })
	cfg := &config.Config{Backends: []config.Backend{{Name: "b", URL: backend.URL}}, ScriptedTools: []config.ScriptedTool{{
		Name: "s", Description: "d", Script: "def run(params):\n    return [call_tool('t', {'n': n})['id'] for n in range(3)]\n",
	}}}
	if only != "" {
		cfg.Recording = config.Recording{Dir: dir, Only: only}
	}
	if err := p.Apply(cfg); err != nil {
		b.Fatal(err)
	}
	if err := p.Settled(b.Context()); err != nil {
		b.Fatal(err)
	}
	post := poster(b, p)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"s"}}`, len(took)+2))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
}
