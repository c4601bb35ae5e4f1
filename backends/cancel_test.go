package backends_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// started is a Sink that reports when the backend has begun to execute the call.
type started chan struct{}

func (s started) Notify(string, json.RawMessage) {
	select {
	case s <- struct{}{}:
	default:
	}
}

func (s started) Request(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, errors.New("not expected")
}

// cancelled makes a call that waits, cancels it once it runs, checks its error, and
// waits until the backend has received the cancellation.
func cancelled(t *testing.T, b *backends.Backend, session string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	running := make(started, 1)
	r := tool("wait", `{"steps":1}`, &backends.Caller{Session: session, Sink: running})
	r.Params = jsonscan.Set(r.Params, "_meta", []byte(`{"progressToken":1}`))
	done := make(chan error)
	go func() {
		_, err := b.Call(ctx, r)
		done <- err
	}()
	<-running
	before := text(t, b, tool("cancelled", `{}`, nil))
	cancel()
	if err := <-done; kind(err) != backends.Cancelled {
		t.Errorf("cancelled call: %v", err)
	}
	testkit.Eventually(t, "the backend to notice", func() bool { return text(t, b, tool("cancelled", `{}`, nil)) != before })
}

func TestCancellationReachesTheBackendAndNobodyElse(t *testing.T) {
	t.Parallel()
	for _, tt := range transports {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := ready(t, backends.Options{}, tt.config(t))
			other := make(chan string)
			go func() { other <- text(t, b, tool("wait", `{"ms":300}`, nil)) }()
			cancelled(t, b, "s")
			if got := <-other; got != "waited" {
				t.Errorf("the other call answered %q", got)
			}
			before := b.Stats()
			text(t, b, tool("wait", `{"ms":1}`, nil))
			if got := b.Stats(); got.Connections != before.Connections || got.Reconnects != 0 {
				t.Errorf("connections were harmed: %+v, before %+v", got, before)
			}
		})
	}
}

func TestCallEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	for _, tt := range transports {
		t.Run(tt.name, func(t *testing.T) {
			cfg := tt.config(t)
			b, _ := ready(t, backends.Options{}, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := b.Call(ctx, tool("wait", `{"ms":2000}`, nil)); kind(err) != backends.Timeout {
				t.Errorf("call: %v, want a timeout", err)
			}
			text(t, b, tool("echo", `{}`, nil))
		})
	}
}

// TestAnyEndOfACancelledCall: a backend that ends its response as soon as the call is cancelled, in a form that is not MCP, does not
// change how the call ended.
func TestAnyEndOfACancelledCall(t *testing.T) {
	t.Parallel()
	var cancel atomic.Pointer[context.CancelFunc]
	raw := &backendtest.Raw{Handle: func(x *backendtest.Exchange) {
		if x.Message.Method == wire.ToolsCall {
			(*cancel.Load())()
		}
		x.WriteHeader(http.StatusOK)
	}}
	b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
	for range 300 {
		ctx, end := context.WithCancel(t.Context())
		cancel.Store(&end)
		if _, err := b.Call(ctx, tool("t", `{}`, nil)); kind(err) != backends.Cancelled {
			t.Fatalf("call: %v, want that it was cancelled", err)
		}
	}
}

// TestDeadlineStartsAgainOnProgress uses a backend that reports progress at intervals shorter than the
// timeout, for longer than the timeout in all.
func TestDeadlineStartsAgainOnProgress(t *testing.T) {
	t.Parallel()
	inTime(t, func(unit time.Duration) error {
		raw := &backendtest.Raw{Modern: true, Handle: func(x *backendtest.Exchange) {
			token := x.Param("_meta", "progressToken")
			for range 50 {
				pause(x.Request.Context(), unit/10)
				if token != "" {
					x.Event("", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,"progress":1}}`)
				}
			}
			x.EventResult(`{"content":[{"text":"done"}]}`)
		}}
		b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t), Timeout: config.Duration(3 * unit)})
		r := tool("t", `{}`, &backends.Caller{Sink: &client{}})
		if _, err := b.Call(t.Context(), r); kind(err) != backends.Timeout {
			t.Errorf("without a token: %v, want a timeout", err)
		}
		r.Params = jsonscan.Set(r.Params, "_meta", []byte(`{"progressToken":"x"}`))
		return says(t, b, r, `"text":"done"`)
	})
}

// says makes a call and checks that its result contains a text.
func says(t *testing.T, b *backends.Backend, r *backends.Request, want string) error {
	resp, err := b.Call(t.Context(), r)
	if err != nil {
		return err
	}
	defer resp.Close()
	raw, err := resp.Bytes(1 << 20)
	if err == nil && !strings.Contains(string(raw), want) {
		t.Errorf("answered %s, want %s", raw, want)
	}
	return err
}

// inTime makes a call with a unit of time, and retries with a longer one when a slow machine misses the deadline.
func inTime(t *testing.T, call func(unit time.Duration) error) {
	t.Helper()
	unit := time.Duration(testmode.Count(200, 1000)) * time.Millisecond
	err := call(unit)
	for ; kind(err) == backends.Timeout && unit < 10*time.Second; err = call(unit) {
		unit *= 2
	}
	if err != nil {
		t.Error(err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func TestDeadlineStandsStillWhileTheClientIsAsked(t *testing.T) {
	t.Parallel()
	inTime(t, func(unit time.Duration) error {
		cfg := config.Backend{Name: "b", URL: backendtest.HTTP(t, backendtest.New(), true), Timeout: config.Duration(2 * unit)}
		b, _ := ready(t, backends.Options{}, cfg)
		ann := &client{name: "ann", answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			pause(ctx, 3*unit)
			return json.RawMessage(`{"action":"decline"}`), nil
		}}
		return says(t, b, tool("ask", `{}`, caller(ann)), `"text":"decline`)
	})
}

func TestClientsErrorReachesTheBackendAsItIs(t *testing.T) {
	b, _ := ready(t, backends.Options{}, backendtest.Stdio("b", "legacy"))
	ann := &client{name: "ann", answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return nil, &wire.Error{Code: -1, Message: "the user is asleep"}
	}}
	if got := text(t, b, tool("ask", `{}`, caller(ann))); !strings.Contains(got, "the user is asleep") {
		t.Errorf("ask answered %q", got)
	}
}
