package operate

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// world has one thing that changes.
type world struct{ n atomic.Int64 }

func (w *world) now() []event {
	return []event{{Kind: "backend", Key: "a", Data: fmt.Appendf(nil, `{"n":%d}`, w.n.Load())}, {Kind: "catalog", Data: []byte(`{}`)}}
}

// listen returns the lines of data that come over a connection.
func listen(t *testing.T, url string, headers ...string) (*http.Response, <-chan string) {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.(*http.Transport).Clone().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			if s.Text() != "" {
				lines <- s.Text()
			}
		}
	}()
	return resp, lines
}

// until reads lines up to one that begins with want.
func until(t *testing.T, lines <-chan string, want string) string {
	t.Helper()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the stream ended before %q", want)
			}
			if strings.HasPrefix(line, want) {
				return line
			}
		case <-time.After(time.Minute):
			t.Fatalf("no %q", want)
		}
	}
}

func serve(t *testing.T, w *world) (*hub, string) {
	t.Helper()
	done := make(chan struct{})
	h := newEvents(eventsOptions{Now: w.now, Done: done})
	srv := httptest.NewServer(h)
	t.Cleanup(func() { close(done); h.Close(); srv.Close() })
	return h, srv.URL
}

// A listener gets the current state, then changes; one that reconnects gets what it has missed.
func TestAListener(t *testing.T) {
	w := &world{}
	h, url := serve(t, w)
	resp, lines := listen(t, url)
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("Content-Type %s", kind)
	}
	until(t, lines, `data: {"n":0}`)
	until(t, lines, "event: catalog")
	w.n.Store(1)
	h.Wake()
	id := strings.TrimPrefix(until(t, lines, "id: "), "id: ")
	until(t, lines, `data: {"n":1}`)
	w.n.Store(2)
	h.Wake()
	until(t, lines, `data: {"n":2}`)
	_, again := listen(t, url, "Last-Event-ID", id)
	if got := until(t, again, "data: "); got != `data: {"n":2}` {
		t.Errorf("who comes back gets %s first", got)
	}
}

// Two hundred listeners get every change; beyond maxListeners one is refused, and accepted when another has
// disconnected.
func TestManyListeners(t *testing.T) {
	w := &world{}
	h, url := serve(t, w)
	var all []<-chan string
	for range 200 {
		_, lines := listen(t, url)
		all = append(all, lines)
	}
	for _, lines := range all {
		until(t, lines, `data: {"n":0}`)
	}
	w.n.Store(7)
	h.Wake()
	var reading sync.WaitGroup
	for _, lines := range all {
		reading.Go(func() {
			for line := range lines {
				if line == `data: {"n":7}` {
					return
				}
			}
			t.Error("a stream ended without the change")
		})
	}
	reading.Wait()
	for h.Listeners() < maxListeners {
		listen(t, url)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s", resp.Status)
	}
}

// A listener that does not read is disconnected and delays no other; what it has not read is not kept.
func TestAListenerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		big := strings.Repeat("x", 1000)
		h := newEvents(eventsOptions{Now: func() []event {
			return []event{{Kind: "backend", Key: "a", Data: fmt.Appendf(nil, `{"n":%d,"t":%q}`, w.n.Load(), big)}}
		}})
		ours, theirs := net.Pipe() // nothing is buffered
		defer theirs.Close()
		srv := &http.Server{Handler: h}
		l := &oneConn{conn: ours, done: make(chan struct{})}
		go srv.Serve(l)
		defer srv.Close()
		fmt.Fprint(theirs, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		synctest.Wait()
		if h.Listeners() != 1 {
			t.Fatalf("%d listeners", h.Listeners())
		}
		for range 100 {
			w.n.Add(1)
			h.Wake()
			time.Sleep(eventsPause)
			synctest.Wait()
		}
		if n := len(h.last); n != 1 {
			t.Errorf("%d events are held", n)
		}
		time.Sleep(takeTime + time.Second)
		synctest.Wait()
		if h.Listeners() != 0 {
			t.Error("the listener is still there")
		}
		h.Close()
	})
}

// A listener gets a comment every 15 s, which shows that the connection works.
func TestTheBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		h := newEvents(eventsOptions{Done: done, Now: func() []event { return nil }})
		w := httptest.NewRecorder()
		served := make(chan struct{})
		go func() {
			defer close(served)
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		}()
		time.Sleep(46 * time.Second)
		close(done)
		<-served
		h.Close()
		if n := strings.Count(w.Body.String(), ": still here\n\n"); n != 3 {
			t.Errorf("%d comments in 46 s", n)
		}
	})
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn net.Conn
	done chan struct{}
	once sync.Once
	gave atomic.Bool
}

func (l *oneConn) Accept() (net.Conn, error) {
	if !l.gave.Swap(true) {
		return l.conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
