package serve_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/serve"
)

// socket is a service manager's socket; next returns the next notification.
func socket(t *testing.T) (next func() string) {
	t.Helper()
	addr := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	c, err := net.ListenUnixgram("unixgram", addr)
	if err != nil {
		t.Skipf("no datagrams on Unix sockets here: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", addr.Name)
	return func() string {
		t.Helper()
		buf := make([]byte, 4096)
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("nothing came: %v", err)
		}
		return string(buf[:n])
	}
}

func port(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func still() serve.NotifierOptions {
	never := make(chan struct{})
	return serve.NotifierOptions{Status: func() string { return "fine" }, Changed: func() <-chan struct{} { return never }, Probe: func() {}, Log: slog.New(slog.DiscardHandler)}
}

// TestSequence: ready once, reloading with the monotonic time, ready again, stopping, and nothing after it.
func TestSequence(t *testing.T) {
	next := socket(t)
	m := serve.NewNotifier(still())
	m.Reloading() // the first configuration is no reload
	m.Reloaded()
	l := m.Listener(port(t))
	m.Started(l)
	m.Reloading()
	m.Reloaded()
	m.Stopping()
	m.Reloading()
	m.Reloaded()
	m.Close()
	for _, want := range []string{"READY=1\nSTATUS=fine", `RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*`, "READY=1\nSTATUS=fine", "STOPPING=1\nSTATUS=stopping.*"} {
		if got := next(); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestStatusFollows: a status is sent when it has changed, and only then.
func TestStatusFollows(t *testing.T) {
	next := socket(t)
	o := still()
	changes, now := make(chan (<-chan struct{})), make(chan string, 1)
	text := "one"
	o.Status = func() string {
		select {
		case text = <-now:
		default:
		}
		return text
	}
	o.Changed = func() <-chan struct{} { return <-changes }
	m := serve.NewNotifier(o)
	m.Started(port(t))
	defer m.Close()
	change := func() {
		c := make(chan struct{})
		close(c)
		changes <- c
	}
	change()
	change()
	now <- "two"
	change()
	close(changes)
	for _, want := range []string{"READY=1\nSTATUS=one", "STATUS=two"} {
		if got := next(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// told is a log handler that sends its messages to a channel.
type told struct {
	slog.Handler
	to chan string
}

func (h told) Enabled(context.Context, slog.Level) bool { return true }

func (h told) Handle(_ context.Context, r slog.Record) error {
	select {
	case h.to <- r.Message:
	default:
	}
	return nil
}

// TestStuckAcceptLoop: while connections are not accepted, though the kernel completes them, the watchdog is not notified; when
// they are accepted again, it is.
func TestStuckAcceptLoop(t *testing.T) {
	next := socket(t)
	t.Setenv("WATCHDOG_USEC", "40000")
	o := still()
	said := make(chan string, 3)
	o.Log = slog.New(told{slog.DiscardHandler, said})
	m := serve.NewNotifier(o)
	l := m.Listener(port(t))
	m.Started(l)
	defer m.Close()
	if got := next(); !strings.HasPrefix(got, "READY=1") {
		t.Fatalf("got %q", got)
	}
	for range 3 {
		if got := <-said; !strings.Contains(got, "the service does not respond") {
			t.Errorf("the log says %q", got)
		}
	}
	server := &http.Server{Handler: http.NotFoundHandler()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() { server.Close(); <-served }()
	if got := next(); got != "WATCHDOG=1" { // the first one since the start
		t.Errorf("got %q", got)
	}
}

// TestStuckCatalog: while Probe does not return, the watchdog is not notified. At the end it is, without a probe of the port.
func TestStuckCatalog(t *testing.T) {
	next := socket(t)
	t.Setenv("WATCHDOG_USEC", "40000")
	o := still()
	looks, goOn := make(chan struct{}, 1), make(chan struct{})
	o.Probe = func() {
		select {
		case looks <- struct{}{}:
		default:
		}
		<-goOn
	}
	m := serve.NewNotifier(o)
	p := port(t)
	m.Started(m.Listener(p))
	if got := next(); !strings.HasPrefix(got, "READY=1") {
		t.Fatalf("got %q", got)
	}
	<-looks
	m.Stopping()
	p.Close()
	if got := next(); !strings.HasPrefix(got, "STOPPING=1") { // and no WATCHDOG=1 before it
		t.Errorf("got %q", got)
	}
	close(goOn)
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("got %q", got)
	}
	m.Close()
}

// TestNobodyAsks: without NOTIFY_SOCKET nothing is sent.
func TestNobodyAsks(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	m := serve.NewNotifier(still())
	l := port(t)
	if m != nil || m.Listener(l) != l {
		t.Error("a manager without a socket")
	}
	m.Started(l)
	m.Reloading()
	m.Reloaded()
	m.Stopping()
	m.Close()
}
