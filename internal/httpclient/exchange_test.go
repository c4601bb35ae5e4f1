package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var errGone = errors.New("the caller has gone")

// TestCancelInHead: the context ends a request without a response, its cause is the error, and the
// connection is closed.
func TestCancelInHead(t *testing.T) {
	asked, closed := make(chan struct{}), make(chan struct{})
	s := serve(t, func(c *serverConn) {
		c.request()
		close(asked)
		c.hung()
		close(closed)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		cancel(errGone)
	}()
	l := lean(t, s, standard())
	if _, _, err := ask(l, post(ctx, s, "x")); err != errGone {
		t.Errorf("the error is %v", err)
	}
	<-closed
	if _, _, err := ask(l, post(ctx, s, "x")); err != errGone || s.count() != 1 {
		t.Errorf("with a context that has ended: %v, %d connections", err, s.count())
	}
}

// TestCancelInBody: the same within a response, for both framings.
func TestCancelInBody(t *testing.T) {
	for _, head := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		closed := make(chan struct{})
		s := serve(t, func(c *serverConn) {
			c.request()
			c.write("HTTP/1.1 200 OK\r\n" + head + "\r\n\r\n5\r\nab")
			c.hung()
			close(closed)
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		resp, err := lean(t, s, standard()).RoundTrip(post(ctx, s, "x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		cancel(errGone)
		if _, err := io.ReadAll(resp.Body); err != errGone {
			t.Errorf("%s: the rest of the body ends with %v", head, err)
		}
		if _, err := resp.Body.Read(make([]byte, 1)); err != errGone {
			t.Errorf("%s: the next read ends with %v", head, err)
		}
		resp.Body.Close()
		<-closed
	}
}

// TestDeadlineOfContext: the dialer has its own timer for the deadline; the error is the context's.
func TestDeadlineOfContext(t *testing.T) {
	std := standard()
	std.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Err: errors.New("i/o timeout")}
	}
	s := serve(t, echo)
	l := lean(t, s, std)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errGone)
	defer cancel()
	if _, _, err := ask(l, post(ctx, s, "x")); err != errGone {
		t.Errorf("the error is %v", err)
	}
}

// TestDialError: the error of a failed dial says so.
func TestDialError(t *testing.T) {
	s := serve(t, echo)
	s.close()
	_, _, err := ask(lean(t, s, standard()), post(t.Context(), s, "x"))
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the error is %v", err)
	}
}

// TestEarlyRefusal: a response that is sent before the request was read is returned at once, for
// requests of any size, whether the server reads the rest or not.
func TestEarlyRefusal(t *testing.T) {
	const refusal = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!"
	for _, tt := range []struct {
		name string
		then func(c *serverConn)
	}{
		{"never read", (*serverConn).stall},
		{"closed", func(*serverConn) {}},
		{"read in part", func(c *serverConn) { io.CopyN(io.Discard, c.r, 100_000); c.stall() }},
	} {
		for _, size := range []int{4 << 20, 32 << 20} { // of the smaller one, all may fit into buffers
			t.Run(fmt.Sprintf("%s, %d bytes", tt.name, size), func(t *testing.T) {
				s := serve(t, func(c *serverConn) {
					c.head()
					c.write(refusal)
					tt.then(c)
				})
				l := lean(t, s, standard())
				body := &closing{Reader: strings.NewReader(strings.Repeat("x", size))}
				r := post(t.Context(), s, "")
				r.Body, r.ContentLength, r.GetBody = body, int64(size), func() (io.ReadCloser, error) { panic("sent again") }
				resp, text, err := ask(l, r)
				if err != nil || resp.StatusCode != 413 || text != "no!" {
					t.Errorf("the answer is %v %q, %v", resp, text, err)
				}
				if kept := len(l.pool.idle) > 0; kept && size > 4<<20 || !body.closed.Load() {
					t.Errorf("the connection is kept: %t, the body was closed: %t", kept, body.closed.Load())
				}
			})
		}
	}
}

// closing records that a body was closed.
type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Close() error {
	c.closed.Store(true)
	return nil
}

// TestEarlyRefusalOfSmallBody: the part of a small request that the socket does not accept at once is
// written while the response is read.
func TestEarlyRefusalOfSmallBody(t *testing.T) {
	narrow := func(_, _ string, raw syscall.RawConn) error { return raw.Control(narrowSocket) }
	l, err := (&net.ListenConfig{Control: narrow}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serveOn(t, l, func(c *serverConn) {
		c.head()
		c.write("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		c.stall()
	})
	std := standard()
	std.DialContext = (&net.Dialer{Control: narrow}).DialContext
	by := lean(t, s, std)
	if resp, _, err := ask(by, post(t.Context(), s, strings.Repeat("x", atOnce))); err != nil || resp.StatusCode != 413 || len(by.pool.idle) > 0 {
		t.Errorf("the answer is %v, %v; %d connections are kept", resp, err, len(by.pool.idle))
	}
}

// TestLargeBodies: requests of all sizes are sent completely, and their connection is used again,
// also if the response begins before the end of the request.
func TestLargeBodies(t *testing.T) {
	s := serve(t, func(c *serverConn) {
		for {
			lines, length := c.head()
			if lines == nil {
				return
			}
			c.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", length))
			io.CopyN(c.Conn, c.r, int64(length))
		}
	})
	l := lean(t, s, standard())
	for _, size := range []int{0, 1, 4096, atOnce - 1, atOnce, atOnce + 1, 1 << 20, 4 << 20} {
		body := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		must(t, l, post(t.Context(), s, body), body)
	}
	if n := s.count(); n != 1 {
		t.Errorf("%d connections were opened", n)
	}
}

// TestCancelWhileWriting: the context ends a request that the server does not read.
func TestCancelWhileWriting(t *testing.T) {
	asked := make(chan struct{})
	s := serve(t, func(c *serverConn) {
		c.head()
		close(asked)
		c.stall()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-asked
		cancel(errGone)
	}()
	if _, _, err := ask(lean(t, s, standard()), post(ctx, s, strings.Repeat("x", 8<<20))); err != errGone {
		t.Errorf("the error is %v", err)
	}
}

// TestBodyOfAnotherLength: a request that is longer or shorter than its Content-Length fails.
func TestBodyOfAnotherLength(t *testing.T) {
	for _, size := range []int{10, 2 * atOnce} {
		for _, differs := range []int64{-1, 1} {
			s := serve(t, func(c *serverConn) { c.request(); c.stall() })
			r := post(t.Context(), s, strings.Repeat("x", size))
			r.ContentLength += differs
			if _, _, err := ask(lean(t, s, standard()), r); err == nil || errors.Is(err, net.ErrClosed) {
				t.Errorf("%d bytes that are announced as %d more: %v", size, differs, err)
			}
		}
	}
}

// TestServerDiesBeforeWrite: a pooled connection ends after it was peeked at. If no byte was written,
// another one is used.
func TestServerDiesBeforeWrite(t *testing.T) {
	for _, size := range []int{10, 1 << 20} {
		die := make(chan struct{})
		s := serve(t, func(c *serverConn) {
			c.request()
			c.write(ok)
			if c.n == 1 {
				<-die
				c.Conn.SetLinger(0) // a reset
				return
			}
			c.hung()
		})
		l := lean(t, s, standard())
		must(t, l, post(t.Context(), s, "one"), "ok")
		c := l.pool.get()
		close(die)
		if err := c.raw.Read(func(fd uintptr) bool { c.peek(fd); return !c.silent }); err != nil { // waits for the reset
			t.Fatal(err)
		}
		body := strings.Repeat("x", size)
		if _, err := l.exchange(c, post(t.Context(), s, body)); err != errUnwritten {
			t.Fatalf("%d bytes on a connection that was reset: %v", size, err)
		}
		must(t, l, post(t.Context(), s, body), "ok")
	}
}

// TestNoRequestTwice: servers that close pooled connections at any time receive no request twice,
// and a lost request has an error.
func TestNoRequestTwice(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{} // guarded by mu
	s := serve(t, func(c *serverConn) {
		for i := 0; ; i++ {
			id, more := c.request()
			if !more {
				return
			}
			mu.Lock()
			seen[id]++
			mu.Unlock()
			c.write(ok)
			if i == c.n%3 {
				if c.n%2 == 0 {
					c.Conn.SetLinger(0)
				}
				return
			}
		}
	})
	l := lean(t, s, standard())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 100 {
				id := fmt.Sprintf("%d-%d", i, j)
				_, _, err := ask(l, post(t.Context(), s, id))
				mu.Lock()
				if n := seen[id]; n > 1 || n == 0 && err == nil {
					t.Errorf("request %s came %d times, %v", id, n, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// TestGetHasNewConnection: a GET, which http.Transport would retry after a pooled connection has
// ended, uses a new connection.
func TestGetHasNewConnection(t *testing.T) {
	s := serve(t, echo)
	l := lean(t, s, standard())
	must(t, l, post(t.Context(), s, "one"), "one")
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url.String(), nil)
	must(t, l, r, "")
	if s.count() != 2 || len(l.pool.idle) != 2 {
		t.Errorf("%d connections, %d are kept", s.count(), len(l.pool.idle))
	}
}

// TestCloseBody: closing an incomplete response closes its connection, and a blocked reader
// returns.
func TestCloseBody(t *testing.T) {
	closed := make(chan struct{})
	s := serve(t, func(c *serverConn) {
		c.request()
		c.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
		c.hung()
		close(closed)
	})
	resp, err := lean(t, s, standard()).RoundTrip(post(t.Context(), s, "x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 9)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := resp.Body.Read(make([]byte, 1))
		ended <- err
	}()
	resp.Body.Close()
	if err := <-ended; err == nil {
		t.Error("a read of a closed body returns something")
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
		t.Error("a later read of a closed body returns something")
	}
	<-closed
}

// TestAnswerIsComplete: nothing is read after the end of a body, although the connection has the
// response to another request by then.
func TestAnswerIsComplete(t *testing.T) {
	s := serve(t, echo)
	l := lean(t, s, standard())
	first, err := l.RoundTrip(post(t.Context(), s, "one"))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(first.Body); err != nil || string(body) != "one" {
		t.Fatal(string(body), err)
	}
	second, err := l.RoundTrip(post(t.Context(), s, "two"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := first.Body.Read(make([]byte, 10)); n != 0 || err != io.EOF {
		t.Errorf("behind the end: %d bytes, %v", n, err)
	}
	first.Body.Close()
	if body, err := io.ReadAll(second.Body); err != nil || string(body) != "two" || s.count() != 1 {
		t.Errorf("the second answer is %q, %v, on connection %d", body, err, s.count())
	}
}

// TestAhead: for a request without a response, it reports whether the server has begun to handle it.
func TestAhead(t *testing.T) {
	const early = "HTTP/1.1 102 Processing\r\nA: b\r\n\r\n"
	for _, tt := range []struct {
		name, says string
		want       bool
	}{{"an answer", ok, false}, {"something ahead of it", early + ok, true}, {"nothing", "", false}, {"something ahead of nothing", early, true}, {"half of something", early[:9], true}} {
		s := serve(t, func(c *serverConn) {
			if _, more := c.request(); more {
				c.write(tt.says)
			}
		})
		l, begun := lean(t, s, standard()), false
		l.Ahead = func(*http.Request) { begun = true }
		_, body, err := ask(l, post(t.Context(), s, "x"))
		if begun != tt.want || (err == nil) != strings.HasSuffix(tt.says, ok) || err == nil && body != "ok" {
			t.Errorf("%s: begun %t, %q, %v", tt.name, begun, body, err)
		}
	}
}

// TestAheadUnread: received data counts, although the context ended before it was read.
func TestAheadUnread(t *testing.T) {
	for _, says := range []string{"", "HTTP/1.1 102 Processing\r\n\r\n"} {
		s := serve(t, func(c *serverConn) { c.write(says); c.hung() })
		l, begun := lean(t, s, standard()), false
		l.Ahead = func(*http.Request) { begun = true }
		c, err := l.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for says != "" && c.isEmpty() {
			runtime.Gosched()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errGone)
		c.SetDeadline(time.Unix(1, 0)) // as the end of the context does, in a moment
		if _, err := l.exchange(c, post(ctx, s, "x")); err != errGone || begun != (says != "") {
			t.Errorf("the server says %q: begun %t, %v", says, begun, err)
		}
	}
}
