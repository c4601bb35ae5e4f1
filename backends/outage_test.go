package backends

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends/backendtest"
)

// logged is a log that is written to and read at the same time.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestBackendThatCannotStartIsLoggedOnce: what its process writes, and that it started,
// is in the log once, however often it is tried; the number of attempts is there later.
func TestBackendThatCannotStartIsLoggedOnce(t *testing.T) {
	log := &logged{}
	s := NewSet(Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	defer s.Close()
	apply(t, s, backendtest.Stdio("b", "exits"))
	b := s.All()[0]
	for b.outage.attempts.Load() < 4 {
		_, changed := b.watch()
		select {
		case <-changed:
		case <-time.After(30 * time.Second):
			t.Fatal("it is not tried again")
		}
	}
	for text, want := range map[string]int{
		`msg=stderr backend=b line="cannot find my config"`: 1, `msg="backend process started"`: 1, `msg="backend is down"`: 1, `msg="backend is still down"`: 0,
	} {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%s: %d times, want %d\n%s", text, n, want, log)
		}
	}
	b.outage.attempts.Store(9)
	b.outage.failed(b, errClosed)
	if !strings.Contains(log.String(), `msg="backend is still down" backend=b attempts=10`) {
		t.Errorf("the tenth attempt is not logged:\n%s", log)
	}
}
