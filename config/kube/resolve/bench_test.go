package resolve_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/proxy"
)

// fiveHundred are the manifests of 500 tools of one server.
func fiveHundred() string {
	var refs []string
	var b strings.Builder
	for i := range 500 {
		name := fmt.Sprintf("tool-%03d", i)
		refs = append(refs, "{name: "+name+"}")
		b.WriteString(toolOf(name, name, fmt.Sprint(i)))
	}
	return b.String() + serverOf("ops", "scriptedToolRefs: ["+strings.Join(refs, ", ")+"]")
}

// TestOneOfManyIsCompiledAlone: unchanged tools are not compiled again.
func TestOneOfManyIsCompiledAlone(t *testing.T) {
	w := newWorld(t, open)
	compiled := 0
	w.r = resolve.New(resolve.Options{AllowAnonymous: true, Check: func(c *config.Config) diag.Problems {
		compiled++
		return proxy.CheckTools(c)
	}})
	w.apply(fiveHundred())
	w.has("VirtualMCPServer ops", "ScriptsValid=True Compiled: 500 tools compiled")
	compiled = 0
	w.apply(toolOf("tool-250", "tool-250", "nothing"))
	if compiled != 1 {
		t.Errorf("%d tools were compiled for a change of one, want 1", compiled)
	}
	w.has("VirtualMCPServer ops", "ScriptsValid=False CompileFailed: 1 of 500 tools: tool-250: tool-250.star:2:12: undefined: nothing", "Ready=True")
	if got := len(w.served["ops"].Config.ScriptedTools); got != 500 {
		t.Errorf("%d tools are served, want 500: the last good version of the broken one, too", got)
	}
	w.restart(open)
	w.resolve()
	if got := len(w.served["ops"].Config.ScriptedTools); got != 499 {
		t.Errorf("after a restart %d tools are served, want 499", got)
	}
}

// BenchmarkResolve resolves a state with 500 tools of which one was edited.
func BenchmarkResolve(b *testing.B) {
	w := newWorld(b, open)
	w.refuse = func(*resolve.Server) error { return nil }
	begun := time.Now()
	w.apply(fiveHundred())
	b.Logf("first: %s", time.Since(begun))
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		w.edit("tool-250", fmt.Sprint(i))
		b.StartTimer()
		for _, s := range w.r.Resolve(&w.state) {
			w.r.Applied(s)
		}
		w.reports()
	}
}
