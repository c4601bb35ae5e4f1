//go:build linux

package isolate

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

// TestAdaptedArguments: the arguments of a worker's calls are adapted in this process, before the call; those of other
// effects are not.
func TestAdaptedArguments(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"echo": scripttest.Echo}}
	seen := ""
	res, err := scripttest.Compile(t, `
def run(params):
    log("x")
    return [call_tool("echo", {"n": 1}), try_call_tool("echo", {"n": 2}).output, call_tool("echo", {"n": 3})]
`).Run(t.Context(), script.RunOptions{
		Host: h, Isolation: newWorkers(t),
		Adapt: func(_ context.Context, e script.Effect) (json.RawMessage, string) {
			if string(e.Args) == `{"n":3}` {
				return nil, ""
			}
			return json.RawMessage(`{"n":"` + string(e.Args[5]) + `"}`), "converted"
		},
		Trace: func(e script.Event) { seen += fmt.Sprint(e.Kind, " ", string(e.Args), " ", e.Note, "\n") },
	})
	const want = `[{"n":"1"},{"n":"2"},{"n":3}]`
	if err != nil || string(res.Structured) != want {
		t.Fatalf("have %v, %v; want %s", res, err, want)
	}
	if want := `[{echo {"n":"1"}} {echo {"n":"2"}} {echo {"n":3}}]`; fmt.Sprint(h.Calls()) != want {
		t.Errorf("calls %v, want %s", h.Calls(), want)
	}
	if want := "log  \ncall {\"n\":\"1\"} converted\ncall {\"n\":\"2\"} converted\ncall {\"n\":3} \n"; seen != want {
		t.Errorf("traced %q\nwant %q", seen, want)
	}
}
