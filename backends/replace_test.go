package backends

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/backends/internal/conn"
	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// TestSettingsChangeInPlace changes all settings of the proxy: the process and its connection
// are kept, and the new values apply.
func TestSettingsChangeInPlace(t *testing.T) {
	cfg := backendtest.Stdio("b", "sdk")
	s := NewSet(Options{})
	defer s.Close()
	apply(t, s, cfg)
	b := awaitReady(t, s)
	before := b.main.Load()

	cfg.Timeout = config.Duration(50 * time.Millisecond)
	all := &config.Config{Backends: []config.Backend{cfg}}
	all.Operational.FailureHandling = config.FailureHandling{HealthCheckInterval: config.Duration(time.Hour), UnhealthyThreshold: 7,
		CircuitBreaker: &config.CircuitBreaker{Enabled: true, FailureThreshold: 1, Timeout: config.Duration(time.Hour)}}
	applyAll(t, s, all)
	if now := s.All()[0]; now != b || b.main.Load() != before {
		t.Fatal("the backend was replaced")
	}
	_, err := b.Call(t.Context(), &Request{Method: "tools/call", Params: json.RawMessage(`{"name":"wait"}`)})
	if conn.KindOf(err) != Timeout {
		t.Errorf("a long call: %v, want a timeout after the new 50ms", err)
	}
	if _, err = b.Call(t.Context(), &Request{Method: "tools/list"}); !errors.Is(err, endpoint.ErrOpen) {
		t.Errorf("the call after it: %v, want the new breaker open", err)
	}
	if set := b.settings.Load(); set.CheckInterval != time.Hour || set.CheckThreshold != 7 {
		t.Errorf("health checks: %+v", set)
	}
	applyAll(t, s, all) // nothing changed: an open breaker stays open
	if _, err = b.Call(t.Context(), &Request{Method: "tools/list"}); !errors.Is(err, endpoint.ErrOpen) {
		t.Errorf("after the same configuration again: %v", err)
	}
}

// TestRefusedConfigurationChangesNothing: neither the settings of a backend, nor those of later ones.
func TestRefusedConfigurationChangesNothing(t *testing.T) {
	cfg := backendtest.Stdio("b", "sdk")
	s := NewSet(Options{})
	defer s.Close()
	apply(t, s, cfg)
	before, idle := s.general, *s.idle.Load()
	refused := &config.Config{Backends: []config.Backend{cfg, cfg}, SessionIdle: config.SessionIdle{Client: config.Duration(time.Second)}}
	refused.Operational.Timeouts.Default = config.Duration(time.Second)
	if err := s.Apply(refused); err == nil {
		t.Fatal("two backends of one name were accepted")
	}
	if s.general != before || *s.idle.Load() != idle {
		t.Errorf("after a refused configuration: %+v, %+v; want %+v, %+v", s.general, *s.idle.Load(), before, idle)
	}
}

// TestReplacedWithoutAGap changes the environment during calls: every call succeeds, in
// the old or the new process, and the offer is never empty.
func TestReplacedWithoutAGap(t *testing.T) {
	cfg := backendtest.Stdio("b", "sdk")
	s := NewSet(Options{})
	defer s.Close()
	apply(t, s, cfg)
	first := awaitReady(t, s)

	stop := make(chan struct{})
	var calling sync.WaitGroup
	for _, pick := range []func() *Backend{
		func() *Backend { return s.All()[0] },
		func() *Backend { return first }, // as by an older catalog
	} {
		calling.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := pick().Call(t.Context(), &Request{Method: "tools/call", Params: json.RawMessage(`{"name":"echo"}`)})
				if err != nil {
					t.Errorf("a call while the backend is replaced: %v", err)
					return
				}
				resp.Close()
				if state, offer := s.All()[0].Snapshot(); len(offer.Tools) == 0 {
					t.Errorf("an empty offer from a backend that is %s", state.Status)
					return
				}
			}
		})
	}
	for _, value := range []string{"one", "two", "three"} {
		cfg.Env = map[string]string{"BACKENDTEST_ROLE": "sdk", "VALUE": value}
		old := s.All()[0]
		apply(t, s, cfg)
		for s.Replacing() {
			time.Sleep(time.Millisecond) // nothing reports when the place was taken
		}
		if now := s.All()[0]; now == old || now.State().Status != Ready {
			t.Fatalf("after another environment: replaced %v, %s", now != old, now.State().Status)
		}
		<-old.ctx.Done() // it retires
	}
	close(stop)
	calling.Wait()
}

// TestHeadersChangeInPlace: during calls, the next request has the new header, in the same session,
// and no call fails.
func TestHeadersChangeInPlace(t *testing.T) {
	for _, modern := range []bool{false, true} {
		raw := &backendtest.Raw{Modern: modern, Session: "s", Tools: `{"name":"t","inputSchema":{"type":"object"}}`,
			Handle: func(x *backendtest.Exchange) { x.JSON(`{"content":[]}`) }}
		cfg := config.Backend{Name: "b", URL: raw.Start(t), Headers: map[string]string{"X-Key": "first", "x-gone": "1"}}
		s := NewSet(Options{})
		defer s.Close()
		apply(t, s, cfg)
		b := awaitReady(t, s)
		main := b.main.Load()
		stop := make(chan struct{})
		var calling sync.WaitGroup
		for range 4 {
			calling.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						callTool(t, b, "while")
					}
				}
			})
		}
		for _, key := range []string{"second", "third", "fourth"} {
			cfg.Headers = map[string]string{"X-Key": key}
			apply(t, s, cfg)
			callTool(t, b, "after "+key)
		}
		close(stop)
		calling.Wait()
		for _, call := range raw.Seen("tools/call") {
			with := call.Header.Get("X-Key")
			if key, is := strings.CutPrefix(jsonscan.GetString(jsonscan.Get(call.Message.Params, "arguments"), "when"), "after "); is && (with != key || call.Header.Get("X-Gone") != "") {
				t.Errorf("modern %v: a call after another header was applied: %q, want %s", modern, with, key)
			}
		}
		if s.All()[0] != b || b.main.Load() != main {
			t.Errorf("modern %v: the backend was connected to anew", modern)
		}
		if n := len(raw.Seen("initialize")); n > 1 {
			t.Errorf("modern %v: %d sessions", modern, n)
		}
	}
}

// callTool calls the tool t, which must succeed.
func callTool(t *testing.T, b *Backend, when string) {
	resp, err := b.Call(t.Context(), &Request{Method: "tools/call", Params: json.RawMessage(`{"name":"t","arguments":{"when":"` + when + `"}}`)})
	if err != nil {
		t.Error(err)
		return
	}
	resp.Close()
}

// TestHeaderThatWasWrong: a backend that refused the old header is dialled at once with the new one.
func TestHeaderThatWasWrong(t *testing.T) {
	raw := &backendtest.Raw{First: func(x *backendtest.Exchange) bool {
		if x.Request.Header.Get("X-Key") == "right" {
			return false
		}
		x.WriteHeader(http.StatusUnauthorized)
		return true
	}}
	cfg := config.Backend{Name: "b", URL: raw.Start(t), Headers: map[string]string{"X-Key": "wrong"}}
	s := NewSet(Options{})
	defer s.Close()
	apply(t, s, cfg)
	b := s.All()[0]
	if b.awaitAttempt(t.Context()); b.State().Status != Down {
		t.Fatalf("with the wrong header: %s", b.State().Status)
	}
	cfg.Headers = map[string]string{"X-Key": "right"}
	apply(t, s, cfg)
	awaitReady(t, s)
}

// TestTrustChangesInPlace: trusted certificates in a configured text are replaced during a session.
func TestTrustChangesInPlace(t *testing.T) {
	raw := &backendtest.Raw{Session: "s", Handle: func(x *backendtest.Exchange) { x.JSON(`{"content":[]}`) }}
	server := httptest.NewTLSServer(raw)
	defer server.Close()
	trusted := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	cfg := config.Backend{Name: "b", URL: server.URL + "/mcp", TLS: config.BackendTLS{CAText: trusted, ServerName: "example.com"}}
	s := NewSet(Options{})
	defer s.Close()
	apply(t, s, cfg)
	b := awaitReady(t, s)
	cfg.TLS.CAText += trusted
	apply(t, s, cfg)
	callTool(t, b, "")
	if s.All()[0] != b || !b.dialer.Carries(cfg) {
		t.Error("other certificates to trust: the backend was replaced, or has those before")
	}
}

// TestReplacementThatFails: it replaces the old backend, as configured. One that is
// superseded by a newer configuration never serves.
func TestReplacementThatFails(t *testing.T) {
	testmode.NeedThorough(t)
	t.Parallel()
	good := backendtest.Stdio("b", "sdk")
	s := NewSet(Options{})
	defer s.Close()
	apply(t, s, good)
	first := awaitReady(t, s)

	apply(t, s, backendtest.Stdio("b", "mute"))
	overtaken := s.successor()
	if s.All()[0] != first {
		t.Fatal("a replacement that is not ready serves")
	}
	apply(t, s, good)
	if <-overtaken.ctx.Done(); s.All()[0] != first || s.Replacing() {
		t.Error("the configuration before was applied again, and the backend did not stay")
	}

	apply(t, s, backendtest.Stdio("b", "exits"))
	failing := s.successor()
	<-first.ctx.Done()
	if s.All()[0] != failing || failing.State().Status != Down {
		t.Errorf("a replacement that failed: serving %v, %s", s.All()[0] == failing, failing.State().Status)
	}
	apply(t, s, good) // nothing to lose: at once
	if s.All()[0] == failing || s.Replacing() {
		t.Error("a backend that is down was waited for")
	}
	awaitReady(t, s)
	apply(t, s, backendtest.Stdio("b", "mute"))
	if err := s.Apply(&config.Config{}); err != nil || s.Replacing() {
		t.Errorf("a backend was removed and is being replaced: %v", err)
	}
}

// successor is what replaces the only backend.
func (s *Set) successor() *Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next["b"]
}

func apply(t *testing.T, s *Set, cfg config.Backend) {
	t.Helper()
	applyAll(t, s, &config.Config{Backends: []config.Backend{cfg}})
}

func applyAll(t *testing.T, s *Set, cfg *config.Config) {
	t.Helper()
	if err := s.Apply(cfg); err != nil {
		t.Fatal(err)
	}
}

// awaitReady waits for the first backend of the set.
func awaitReady(t *testing.T, s *Set) *Backend {
	t.Helper()
	b := s.All()[0]
	for {
		state, changed := b.watch()
		if state.Status == Ready {
			return b
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatalf("the backend is %s: %v", state.Status, state.Err)
		}
	}
}

// TestNotUpSaysWhy has the texts that clients and scripts see.
func TestNotUpSaysWhy(t *testing.T) {
	b := &Backend{name: "b"}
	for want, s := range map[string]State{
		"backend b is starting; retry in a moment": {},
		"backend b is down: gone":                  {Status: Down, Err: errors.New("gone")},
	} {
		if err := b.NotUp(s); err.Error() != want || err.Kind != Unavailable || strings.Contains(err.Error(), "unknown") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
