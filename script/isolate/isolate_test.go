//go:build linux

package isolate

import (
	"encoding/json"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

func newWorkers(t testing.TB) *Workers {
	t.Helper()
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func TestARunInAWorker(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"echo": scripttest.Echo}}
	p := scripttest.Compile(t, `
def run(params):
    print("hello")
    log("what", n = 1)
    found = parallel(lambda n: call_tool("echo", {"n": n})["n"], range(5))
    return {"sum": found, "who": params["who"]}
`)
	res, err := p.Run(t.Context(), script.RunOptions{Args: json.RawMessage(`{"who":"me"}`), Host: h, Isolation: newWorkers(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %+v", res.Structured, res.Stats)
}
