package edge

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// initialize opens a session from an address and returns its id, or the status.
func initialize(t *testing.T, v *Server, from, params string) (id string, status int, body string) {
	t.Helper()
	r := httptest.NewRequest("POST", "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+params+`}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Forwarded-For", from)
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	if w.Code == 503 && w.Header().Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	return w.Header().Get("Mcp-Session-Id"), w.Code, w.Body.String()
}

// ping uses a session and returns the status.
func ping(v *Server, id string) int {
	r := httptest.NewRequest("POST", "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Session-Id", id)
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	return w.Code
}

// TestSessionsAreBounded floods the table: it never exceeds its limit, new sessions replace those that were never used,
// and a session in use is not affected.
func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := started(t)
		mine, _, _ := initialize(t, v, "", "")
		flood := func(n int) (refused int) {
			for range n {
				if _, status, _ := initialize(t, v, "", ""); status == 503 {
					refused++
				}
			}
			return refused
		}
		if refused := flood(15_000); refused != 5001 || len(v.sessions.all()) != 10_000 {
			t.Errorf("%d of 15000 were refused, %d sessions are held; want 5001 and 10000", refused, len(v.sessions.all()))
		}
		for range testmode.Count(1, 5) {
			if got := ping(v, mine); got != 200 {
				t.Fatalf("the session that is in use: %d", got)
			}
			time.Sleep(evictUnused + fullTime)
			if refused := flood(3000); refused != 0 || len(v.sessions.all()) > 10_000 {
				t.Errorf("later %d of 3000 were refused, %d sessions are held; want room made", refused, len(v.sessions.all()))
			}
		}
		time.Sleep(unusedTime + 2*sweepEvery)
		synctest.Wait()
		if n := len(v.sessions.all()); n != 1 || ping(v, mine) != 200 {
			t.Errorf("%d sessions are left a minute later, the one in use: %d", n, ping(v, mine))
		}
		if v.sessions.evicted.Load() == 0 || v.sessions.refused.Load() != 5001 || v.sessions.ended.Load() < 9000 {
			t.Errorf("counted: %d evicted, %d refused, %d ended", v.sessions.evicted.Load(), v.sessions.refused.Load(), v.sessions.ended.Load())
		}
	})
}

// TestFullTableEndsTheIdlest: if all sessions were used, the one that has been idle longest is ended, after a minute;
// one with a request or a stream never is.
func TestFullTableEndsTheIdlest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := started(t)
		apply(t, v, &config.Config{ClientSessions: config.ClientSessions{Max: 3}})
		var ids []string
		for range 3 {
			id, _, _ := initialize(t, v, "", "")
			ids = append(ids, id)
			ping(v, id)
			time.Sleep(time.Second)
		}
		defer v.sessions.find(ids[0]).listen()()
		if _, status, body := initialize(t, v, "", ""); status != 503 || !strings.Contains(body, "clientSessions") {
			t.Errorf("a newcomer while all are fresh: %d %s", status, body)
		}
		time.Sleep(time.Minute)
		if _, status, _ := initialize(t, v, "", ""); status != 200 {
			t.Errorf("a newcomer a minute later: %d", status)
		}
		if a, b, c := ping(v, ids[0]), ping(v, ids[1]), ping(v, ids[2]); a != 200 || b != 404 || c != 200 {
			t.Errorf("the one that listens: %d, the one idle longest: %d, the other: %d", a, b, c)
		}
	})
}

// TestSessionsOfOneAddress: they are bounded if trusted proxies report the address, and do not displace others.
func TestSessionsOfOneAddress(t *testing.T) {
	for _, tt := range []struct {
		trusted []string
		want    int
	}{{nil, 200}, {[]string{"192.0.2.0/24"}, 503}} {
		v := started(t)
		cfg := &config.Config{TrustedProxies: tt.trusted, ClientSessions: config.ClientSessions{PerAddress: 3}}
		apply(t, v, cfg)
		for range 3 { // httptest's requests come from 192.0.2.1
			initialize(t, v, "203.0.113.9", "")
		}
		if _, status, _ := initialize(t, v, "203.0.113.9", ""); status != tt.want {
			t.Errorf("trusted %v: the fourth of one address: %d, want %d", tt.trusted, status, tt.want)
		}
		if _, status, _ := initialize(t, v, "203.0.113.10", ""); status != 200 {
			t.Errorf("trusted %v: another address: %d", tt.trusted, status)
		}
	}
}

func TestAddressOf(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, tt := range []struct {
		peer, forwarded, want string
	}{
		{"203.0.113.9:1", "", "203.0.113.9"},
		{"203.0.113.9:1", "198.51.100.1", "203.0.113.9"}, // no proxy of ours: anybody can say that
		{"10.0.0.1:1", "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:1", "1.2.3.4, 198.51.100.1, 10.9.9.9", "198.51.100.1"},
		{"10.0.0.1:1", "nonsense, 10.9.9.9", "10.9.9.9"},
		{"10.0.0.1:1", "", "10.0.0.1"},
		{"[fd00::1]:1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"},
		{"[::ffff:10.0.0.1]:1", "198.51.100.1", "198.51.100.1"},
		{"127.0.0.1:1", "198.51.100.1", ""},
	} {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.RemoteAddr = tt.peer
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		addr, ok := addressOf(r, trusted)
		if ok != (tt.want != "") || ok && addr.String() != tt.want {
			t.Errorf("from %s for %q: %v %v, want %q", tt.peer, tt.forwarded, addr, ok, tt.want)
		}
		if _, ok := addressOf(r, nil); ok {
			t.Error("an address counts though no proxy is trusted")
		}
	}
}

// TestIntroductionIsBounded: what initialize declares is bounded, for clients of both eras.
func TestIntroductionIsBounded(t *testing.T) {
	v := started(t)
	large := fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", maxIntroduction))
	for _, name := range []string{"capabilities", "clientInfo"} {
		_, status, body := initialize(t, v, "", fmt.Sprintf(`%q:%s`, name, large))
		if want := name + ": want at most 16384 bytes, have 16392"; status != 400 || !strings.Contains(body, "-32602") || !strings.Contains(body, want) {
			t.Errorf("%d %s, want -32602 %s", status, body, want)
		}
	}
	if len(v.sessions.all()) != 0 {
		t.Error("a session was opened")
	}
	x := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}`, large)
	r := httptest.NewRequest("POST", "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+x+`}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "tools/list")
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	if w.Code != 400 || !strings.Contains(w.Body.String(), "capabilities: want at most") {
		t.Errorf("2026-07-28: %d %s", w.Code, w.Body)
	}
}
