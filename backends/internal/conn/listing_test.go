package conn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

var errLost = errors.New("lost")

// reader responds to tools/list by its cursor, and to all else with an error.
func reader(log *strings.Builder, pages map[string]string) *conn.Reader {
	ask := func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		if method == wire.PromptsList {
			return nil, errLost
		}
		if page, ok := pages[string(params)]; ok && method == wire.ToolsList {
			return json.RawMessage(page), nil
		}
		return nil, wire.Errorf(wire.MethodNotFound, "no %s", method)
	}
	return &conn.Reader{Ask: ask, Lost: func(err error) bool { return err == errLost }, Log: slog.New(slog.NewTextHandler(log, nil)),
		Capabilities: json.RawMessage(`{"tools":{},"resources":{}}`)}
}

func names(items []conn.Item) string {
	var b strings.Builder
	for _, it := range items {
		b.WriteString(it.Name)
	}
	return b.String()
}

// TestRefresh: all pages are read, with the shortest TTL and the most private scope; a list that is
// refused is unchanged, one that is not declared is empty.
func TestRefresh(t *testing.T) {
	var log strings.Builder
	r := reader(&log, map[string]string{
		``:               `{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"2","ttlMs":60000,"cacheScope":"private"}`,
		`{"cursor":"2"}`: `{"tools":[{"name":"c","x":1.0}],"ttlMs":1000,"cacheScope":"public"}`,
	})
	o := conn.Offer{Prompts: []conn.Item{{Name: "p"}}, Resources: []conn.Item{{Name: "r"}}, Templates: []conn.Item{{Name: "t"}}}
	if err := r.Refresh(t.Context(), &o, conn.All); err != nil {
		t.Fatal(err)
	}
	if names(o.Tools) != "abc" || string(o.Tools[2].Raw) != `{"name":"c","x":1.0}` || names(o.Prompts) != "" || names(o.Resources) != "r" || names(o.Templates) != "" {
		t.Errorf("tools %q, prompts %q, resources %q, templates %q", names(o.Tools), names(o.Prompts), names(o.Resources), names(o.Templates))
	}
	if m := o.ToolsMeta; m.TTL != time.Second || m.CacheScope != "private" || o.Outdated(time.Second) != 0 || o.Outdated(2*time.Second) != conn.Tools {
		t.Errorf("hints %+v, outdated after 2 s: %b", m, o.Outdated(2*time.Second))
	}
	if lists := o.Incomplete(); len(lists) > 0 {
		t.Errorf("incomplete: %q: a list that a server has no method for is no list", lists)
	}
	if !strings.Contains(log.String(), `msg="list not available" method=resources/list`) || strings.Contains(log.String(), "templates") {
		t.Errorf("log:\n%s", &log)
	}
	r.Capabilities = json.RawMessage(`{"prompts":{}}`)
	if err := r.Refresh(t.Context(), &o, conn.Prompts); err != errLost {
		t.Errorf("the connection is lost: %v", err)
	}
}

// TestARepeatedCursorEndsTheList: a backend cannot keep the reader in a loop.
func TestARepeatedCursorEndsTheList(t *testing.T) {
	var log strings.Builder
	page := `{"tools":[{"name":"a"}],"nextCursor":"2"}`
	r := reader(&log, map[string]string{``: page, `{"cursor":"2"}`: page})
	var o conn.Offer
	if err := r.Refresh(t.Context(), &o, conn.Tools); err != nil || names(o.Tools) != "aa" || !strings.Contains(log.String(), "list cut off") {
		t.Errorf("%v, tools %q, log:\n%s", err, names(o.Tools), &log)
	}
	if got := strings.Join(o.Incomplete(), " "); got != wire.ToolsList {
		t.Errorf("incomplete: %s", got)
	}
}

// TestOffer: equal items of the private and the shared lists share memory.
func TestOffer(t *testing.T) {
	base := &conn.Offer{Tools: []conn.Item{{Name: "a", Raw: json.RawMessage(`{"name":"a"}`)}}}
	for page, want := range map[string]struct {
		names string
		size  int64
	}{
		`{"tools":[{"name":"a"}]}`:              {"a", 0},
		`{"tools":[{"name":"a"},{"name":"b"}]}`: {"ab", 13},
		`{"tools":[]}`:                          {"", 0},
	} {
		o, size, err := reader(new(strings.Builder), map[string]string{``: page}).Offer(t.Context(), base)
		if err != nil || names(o.Tools) != want.names || size != want.size || (o == base) != (want.names == "a") {
			t.Errorf("%s: tools %q, %d bytes, %v", page, names(o.Tools), size, err)
		}
		if len(o.Tools) > 0 && &o.Tools[0].Raw[0] != &base.Tools[0].Raw[0] {
			t.Errorf("%s: a copy of what all are offered", page)
		}
	}
}

// TestOwn: one caller reads while others wait; the offer is kept until it may have changed, and
// counted until the session is closed.
func TestOwn(t *testing.T) {
	var own conn.Own
	var all atomic.Int64
	base, mine := &conn.Offer{}, &conn.Offer{}
	if offer, wait := own.Known(base, 1); offer != nil || wait != nil {
		t.Fatal("nobody has to read")
	}
	_, wait := own.Known(base, 1)
	if wait == nil {
		t.Fatal("two read at once")
	}
	own.Set(base, 1, mine, 10, nil, &all)
	<-wait
	if offer, _ := own.Known(base, 1); offer != mine || !own.Differs() || all.Load() != 10 {
		t.Errorf("offer %p, want %p; %d bytes", offer, mine, all.Load())
	}
	own.MarkStale()
	if offer, wait := own.Known(base, 1); offer != nil || wait != nil {
		t.Error("a change is not read")
	}
	if offer, _ := own.Set(base, 1, nil, 0, errLost, &all); offer != base {
		t.Error("after an error the session is not offered what all are")
	}
	own.Known(base, 1)
	if offer, tooLarge := own.Set(base, 1, mine, 2<<20, nil, &all); offer != base || !tooLarge || all.Load() != 0 {
		t.Errorf("2 MiB of its own are kept: too large %v, %d bytes", tooLarge, all.Load())
	}
	if offer, wait := own.Known(base, 2); offer != nil || wait != nil {
		t.Error("another connection is not asked")
	}
	own.Set(base, 2, mine, 5, nil, &all)
	own.Close()
	if offer, _ := own.Known(base, 2); offer != base || all.Load() != 0 {
		t.Errorf("closed: offer %p, want %p; %d bytes", offer, base, all.Load())
	}
}

// TestEndlessListsAreCutOff: by a repeated cursor, and by bounds of pages, entries and bytes. The
// entries read until then are offered.
func TestEndlessListsAreCutOff(t *testing.T) {
	tool := func(i, size int) string {
		return fmt.Sprintf(`{"name":"t%d","description":"%s"}`, i, strings.Repeat("x", size))
	}
	for _, tt := range []struct {
		name           string
		perPage, size  int
		same           bool // every page has the same cursor
		pages, entries int
	}{
		{"the same cursor", 2, 10, true, 2, 4},
		{"pages", 1, 10, false, 1000, 1000},
		{"entries", 1000, 10, false, 100, 100_000},
		{"bytes", 8, 1 << 20, false, 4, 32},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log strings.Builder
			asked := 0
			r := reader(&log, nil)
			r.Ask = func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
				var list []string
				for range tt.perPage {
					list = append(list, tool(asked, tt.size))
				}
				asked++
				cursor := asked
				if tt.same {
					cursor = 1
				}
				return json.RawMessage(fmt.Sprintf(`{"tools":[%s],"nextCursor":"%d"}`, strings.Join(list, ","), cursor)), nil
			}
			var o conn.Offer
			if err := r.Refresh(t.Context(), &o, conn.Tools); err != nil {
				t.Fatal(err)
			}
			if asked != tt.pages || len(o.Tools) != tt.entries || !strings.Contains(log.String(), "list cut off") {
				t.Errorf("%d pages were asked for, %d tools offered; want %d and %d; log: %s", asked, len(o.Tools), tt.pages, tt.entries, log.String())
			}
		})
	}
}
