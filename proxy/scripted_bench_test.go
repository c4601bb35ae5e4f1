package proxy_test

import (
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy"
)

// BenchmarkScript measures a scripted tool that calls nothing, and a ping: the cost of beginning and ending a run.
func BenchmarkScript(b *testing.B) {
	p := proxy.New(proxy.Options{})
	b.Cleanup(func() { p.Close() })
	err := p.Apply(&config.Config{ScriptedTools: []config.ScriptedTool{{Name: "one", Description: "d", Script: "def run(params):\n    return 1\n"}}})
	if err != nil {
		b.Fatal(err)
	}
	for name, request := range map[string]string{
		"run":  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one"}}`,
		"ping": `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	} {
		b.Run(name, func(b *testing.B) {
			post := poster(b, p)
			b.ReportAllocs()
			for b.Loop() {
				post(request)
			}
		})
	}
}
