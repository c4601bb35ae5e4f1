package backends_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// logged is a log that is safe for concurrent use.
type logged struct {
	mu      sync.Mutex
	b       bytes.Buffer  // guarded by mu
	written chan struct{} // cap 1
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.written <- struct{}{}:
	default:
	}
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestBackendThatCannotStartIsLoggedOnce: the start of its process and its output are
// logged once for all attempts; the number of attempts is logged later.
func TestBackendThatCannotStartIsLoggedOnce(t *testing.T) {
	testmode.Parallel(t)
	log := &logged{written: make(chan struct{}, 1)}
	late := time.After(waitTime)
	newSet(t, backends.Options{Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, backendtest.Stdio("b", "exits"))
	for !strings.Contains(log.String(), `level=DEBUG msg="backend is still down" backend=b attempts=4`) {
		select {
		case <-log.written:
		case <-late:
			t.Fatalf("it is not tried again\n%s", log)
		}
	}
	for text, want := range map[string]int{
		`level=INFO msg=stderr`: 0, `level=INFO msg="backend process started"`: 1, `msg="backend is down"`: 1, `level=WARN msg="backend is still down"`: 0,
	} {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%s: %d times, want %d\n%s", text, n, want, log)
		}
	}
}
