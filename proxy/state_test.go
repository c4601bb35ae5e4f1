package proxy

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/runs"
)

func parkedExchange(who, params string) *exchange {
	return newExchange(nil, edge.Request{Client: &edge.Client{Principal: who}, Method: wire.ToolsCall, Params: json.RawMessage(params)})
}

// TestParkedStateIsBound shows whose a state is, how often it is good, and for how long.
func TestParkedStateIsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parkedFor = 10 * time.Minute
		table := newParkedTable()
		defer table.close()
		const params = `{"name":"t","arguments":{"a":1}}`
		ann := parkedExchange("ann", params)
		var gaveUp error
		live := &liveCall{cancel: func(err error) { gaveUp = err }}
		state, err := table.put(ann, live, parkedFor)
		if err != nil {
			t.Fatal(err)
		}
		sealed := jsonscan.Quote(state)
		for name, x := range map[string]*exchange{
			"somebody else":   parkedExchange("bob", params),
			"other arguments": parkedExchange("ann", `{"name":"t","arguments":{"a":2}}`),
			"another tool":    parkedExchange("ann", `{"name":"u","arguments":{"a":1}}`),
		} {
			if _, err := table.take(x, sealed); err != runs.ErrState {
				t.Errorf("%s takes the state: %v", name, err)
			}
		}
		if c, err := table.take(parkedExchange("ann", `{ "arguments": {"a": 1}, "name":"t"}`), sealed); err != nil || c != live {
			t.Errorf("its owner takes the state: %v", err)
		}
		if _, err := table.take(ann, sealed); err != runs.ErrState {
			t.Errorf("a second time: %v", err)
		}
		state, _ = table.put(ann, live, parkedFor)
		time.Sleep(parkedFor + time.Second)
		synctest.Wait()
		if _, err := table.take(ann, jsonscan.Quote(state)); err != runs.ErrState || gaveUp == nil {
			t.Errorf("after %v: %v, the call was given up with %v", parkedFor, err, gaveUp)
		}
	})
}

// TestBindingPartsAreApart: no part of what a state is bound to can speak for the next one.
func TestBindingPartsAreApart(t *testing.T) {
	of := func(who, method, params string) string {
		return string(newExchange(nil, edge.Request{Client: &edge.Client{Principal: who}, Method: method, Params: json.RawMessage(params)}).binding())
	}
	if of("a\x00tools/call", "x", `{}`) == of("a", "tools/call\x00x", `{}`) {
		t.Error("a principal with a NUL is taken for another principal and method")
	}
	if of("a", "m", `{"name":"n"}`) == of("a", "m", `{"uri":"n"}`) {
		t.Error("a name is taken for a uri")
	}
}
