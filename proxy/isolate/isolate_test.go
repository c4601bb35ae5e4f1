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
	if want := `{"sum":[0,1,2,3,4],"who":"me"}`; string(res.Structured) != want || res.Stats.Calls != 5 {
		t.Errorf("Run = %s after %d calls, want %s after 5", res.Structured, res.Stats.Calls, want)
	}
}
