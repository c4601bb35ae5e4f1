package backends_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// often is a health check interval of a few milliseconds.
var often = config.FailureHandling{HealthCheckInterval: config.Duration(20 * time.Millisecond), UnhealthyThreshold: 2}

// handling returns a configuration of one backend with this failure handling.
func handling(f config.FailureHandling, b config.Backend) *config.Config {
	return &config.Config{Backends: []config.Backend{b}, Operational: config.Operational{FailureHandling: f}}
}

func TestIdleBackendThatHangsIsFoundOut(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{true, false} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) {
			t.Parallel()
			var hang atomic.Bool
			raw := &backendtest.Raw{Modern: modern, Tools: `{"name":"t"}`}
			raw.First = func(x *backendtest.Exchange) bool {
				if hang.Load() {
					<-x.Request.Context().Done()
				}
				return hang.Load()
			}
			cfg := config.Backend{Name: "b", URL: raw.Start(t), Timeout: config.Duration(500 * time.Millisecond)}
			b, changes := readyFor(t, backends.Options{}, handling(often, cfg))
			hang.Store(true)
			waitFor(t, changes, "down", func() bool { return b.State().Status == backends.Down })
			hang.Store(false)
			waitFor(t, changes, "ready", func() bool { return b.State().Status == backends.Ready && len(b.Offer().Tools) == 1 })
		})
	}
}

func TestListWithATimeToLiveIsReadAgain(t *testing.T) {
	var version atomic.Int64
	raw := &backendtest.Raw{Modern: true}
	raw.First = func(x *backendtest.Exchange) bool {
		if x.Message.Method != wire.ToolsList {
			return false
		}
		x.JSON(fmt.Sprintf(`{"tools":[{"name":"v%d"}],"ttlMs":1,"cacheScope":"public"}`, version.Load()))
		return true
	}
	b, changes := readyFor(t, backends.Options{}, handling(often, config.Backend{Name: "b", URL: raw.Start(t)}))
	version.Store(1)
	waitFor(t, changes, "the new list", func() bool { return b.Offer().Tools[0].Name == "v1" })
}

func TestBreakerStopsCallsToABackendThatKeepsFailing(t *testing.T) {
	raw := &backendtest.Raw{Modern: true, Handle: func(x *backendtest.Exchange) { x.WriteHeader(500) }}
	b, _ := readyFor(t, backends.Options{}, handling(config.FailureHandling{
		CircuitBreaker: &config.CircuitBreaker{Enabled: true, FailureThreshold: 3}}, config.Backend{Name: "b", URL: raw.Start(t)}))
	for range 10 {
		b.Call(t.Context(), tool("t", `{}`, nil))
	}
	_, err := b.Call(t.Context(), tool("t", `{}`, nil))
	if kind(err) != backends.Unavailable || !strings.Contains(err.Error(), "circuit breaker") {
		t.Errorf("call: %v", err)
	}
	if n := len(raw.Seen(wire.ToolsCall)); n != 3 {
		t.Errorf("%d calls reached the backend, want 3", n)
	}
}

func TestHundredCallsAtOnce(t *testing.T) {
	testmode.Parallel(t)
	for _, tt := range transports {
		t.Run(tt.name, func(t *testing.T) {
			b, _ := ready(t, backends.Options{}, tt.config(t))
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() {
					want := fmt.Sprintf(`{"i":%d}`, i)
					if got := text(t, b, tool("echo", want, nil)); got != want {
						t.Errorf("echo answered %s, want %s", got, want)
					}
				})
			}
			all.Wait()
		})
	}
}
