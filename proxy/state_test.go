package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/metrics"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/journal"
)

func parkedExchange(who, params string) *exchange {
	return newExchange(nil, edge.Request{Client: &edge.Client{Principal: who}, Method: wire.ToolsCall, Params: json.RawMessage(params)})
}

// TestParkedStateIsBound shows whose a state is, how often it is good, and for how long.
func TestParkedStateIsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newParkedTable()
		defer table.close()
		const params = `{"name":"t","arguments":{"a":1}}`
		ann := parkedExchange("ann", params)
		var gaveUp error
		live := &liveCall{cancel: func(err error) { gaveUp = err }}
		state, err := table.put(ann, &parkedCall{live: live})
		if err != nil {
			t.Fatal(err)
		}
		sealed := jsonscan.Quote(state)
		for name, x := range map[string]*exchange{
			"somebody else":   parkedExchange("bob", params),
			"other arguments": parkedExchange("ann", `{"name":"t","arguments":{"a":2}}`),
			"another tool":    parkedExchange("ann", `{"name":"u","arguments":{"a":1}}`),
		} {
			if _, err := table.take(x, sealed); err != errState {
				t.Errorf("%s takes the state: %v", name, err)
			}
		}
		if c, err := table.take(parkedExchange("ann", `{ "arguments": {"a": 1}, "name":"t"}`), sealed); err != nil || c.live != live {
			t.Errorf("its owner takes the state: %v", err)
		}
		if _, err := table.take(ann, sealed); err != errState {
			t.Errorf("a second time: %v", err)
		}
		state, _ = table.put(ann, &parkedCall{live: live})
		time.Sleep(parkedFor + time.Second)
		synctest.Wait()
		if _, err := table.take(ann, jsonscan.Quote(state)); err != errState || gaveUp == nil {
			t.Errorf("after %v: %v, the call was given up with %v", parkedFor, err, gaveUp)
		}
	})
}

// TestParkedJournalsAreBounded: what waits may not fill the memory.
func TestParkedJournalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newParkedTable()
		defer table.close()
		of := func(n int) *exchange { return parkedExchange(fmt.Sprint("ann", n/3), `{}`) } // less than a principal may have
		big := json.RawMessage(`"` + strings.Repeat("x", 40<<20) + `"`)
		fill := func() *parkedCall {
			j := journal.New()
			if _, err := j.Open(t.Context(), script.Header{}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(j.Record(script.Entry{Key: "1", Done: true, Result: big}), j.Close(script.Cut{})); err != nil {
				t.Fatal(err)
			}
			return &parkedCall{journal: j}
		}
		first := fill()
		for n := 0; ; n++ {
			c := fill()
			if n == 0 {
				c = first
			}
			_, err := table.put(of(n), c)
			if err != nil {
				if n != 6 || !strings.Contains(err.Error(), "hold 256 MB already") {
					t.Errorf("journal %d: %v", n, err)
				}
				break
			}
		}
		if _, err := table.put(of(0), first); err != nil {
			t.Errorf("one that waits already: %v", err)
		}
		time.Sleep(parkedFor + time.Second)
		synctest.Wait()
		if table.bytes != 0 || table.len() != 0 {
			t.Errorf("%d bytes of %d calls are left after %v", table.bytes, table.len(), parkedFor)
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

// TestForgottenRunCounts: a run whose question nobody answers is over when its journal goes,
// and one that has ended counts no second time then.
func TestForgottenRunCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newParkedTable()
		defer table.close()
		p := &Proxy{metrics: metrics.New(func() metrics.State { return metrics.State{} })}
		for _, tool := range []string{"ended", "forgotten"} {
			c := &parkedCall{journal: journal.New()}
			c.forgotten = (&host{p: p, tool: &catalog.ScriptedTool{Name: tool}}).forgotten(c)
			c.over.Store(tool == "ended")
			if _, err := table.put(parkedExchange("ann", `{"name":"t"}`), c); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(parkedFor + time.Second)
		synctest.Wait()
		page := httptest.NewRecorder()
		p.metrics.Handler.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		got := regexp.MustCompile(`(?m)^vmcp_script_runs_total.*`).FindAllString(page.Body.String(), -1)
		if len(got) != 1 || !strings.Contains(got[0], `"forgotten"`) || !strings.Contains(got[0], `"timeout"`) {
			t.Errorf("runs that count after %v: %q; want that of forgotten, as timeout", parkedFor, got)
		}
	})
}
