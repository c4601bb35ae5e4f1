package edge

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// served serves a handler as the command does, on an in-memory network, so that synctest can see that everything is
// blocked.
func served(t *testing.T, h http.Handler) (dial func() net.Conn) {
	conns := make(chan net.Conn)
	l := &pipeListener{conns: conns, closed: make(chan struct{})}
	server := &http.Server{Handler: h}
	go server.Serve(Listener(l))
	t.Cleanup(func() { server.Close() })
	return func() net.Conn {
		here, there := net.Pipe()
		conns <- there
		return here
	}
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

const postHead = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"

// TestUnfinishedBodiesEnd: a sender that announces a large size and stops, or is too slow, gets a response and is
// disconnected; no memory is used for what it has only announced.
func TestUnfinishedBodiesEnd(t *testing.T) {
	for name, head := range map[string]string{
		"announced": "Content-Length: 4194304\r\n\r\n{",
		"chunked":   "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := started(t)
				dial := served(t, v)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				conns := make([]net.Conn, 50)
				for i := range conns {
					conns[i] = dial()
					io.WriteString(conns[i], postHead+head)
				}
				synctest.Wait()
				runtime.GC()
				runtime.ReadMemStats(&after)
				if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 5<<20 {
					t.Errorf("%d unfinished bodies hold %d bytes", len(conns), grown)
				}
				time.Sleep(bodyTime + time.Second)
				for _, c := range conns {
					answer, err := io.ReadAll(c)
					if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
						t.Fatalf("%q, %v, want 408 and the end", answer, err)
					}
				}
			})
		})
	}
}

// TestSlowBodyIsTaken: a body that arrives in pieces with pauses is complete in the end.
func TestSlowBodyIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := started(t)
		c := served(t, v)()
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"x":%q}}`, strings.Repeat("x", 100_000))
		fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n", postHead, len(body))
		for i := 0; i < len(body); i += 10_000 {
			io.WriteString(c, body[i:min(i+10_000, len(body))])
			time.Sleep(9 * time.Second)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%+v, %v", resp, err)
		}
		c.Close()
	})
}

// TestLargeBodiesAreBounded: beyond the limit for all requests, large ones are refused and small ones are served;
// memory is released afterwards.
func TestLargeBodiesAreBounded(t *testing.T) {
	v := started(t)
	v.bodies.Limit = 1 << 20
	post := func(n int) int {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"x":%q}}`, strings.Repeat("x", n))
		r := httptest.NewRequest("POST", "/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		v.ServeHTTP(w, r)
		if w.Code == 503 && w.Header().Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
		return w.Code
	}
	if got := post(3 << 20); got != 503 {
		t.Errorf("3 MB of 1 MB: %d, want 503", got)
	}
	if got := post(900_000); got != 200 {
		t.Errorf("0.9 MB of 1 MB: %d, want 200", got)
	}
	if held := v.bodies.Reserved(); held != 0 {
		t.Errorf("%d bytes are still on the account", held)
	}
	v.bodies.Reserve(1 << 20)
	if got := post(100); got != 200 {
		t.Errorf("a small request while there is no room: %d, want 200", got)
	}
}

// TestUnreadWritesEnd: a client that stops reading is disconnected, one that reads slowly is not.
func TestUnreadWritesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		c := &timedConn{Conn: there, from: Listener(nil)}
		written := make(chan error)
		write := func() { _, err := c.Write(make([]byte, 5*writePiece)); written <- err }
		go write()
		for range 5 {
			time.Sleep(slowReader - time.Second)
			io.ReadFull(here, make([]byte, writePiece))
		}
		if err := <-written; err != nil {
			t.Errorf("a slow reader: %v", err)
		}
		go write()
		io.ReadFull(here, make([]byte, 100_000))
		var timeout net.Error
		if err := <-written; !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("a reader that stopped: %v, want a timeout", err)
		}
	})
}

// TestUnfinishedBodiesOverSockets is the same over real sockets.
func TestUnfinishedBodiesOverSockets(t *testing.T) {
	testmode.NeedThorough(t)
	v := started(t)
	srv := httptest.NewUnstartedServer(v)
	srv.Listener = Listener(srv.Listener)
	srv.Start()
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, postHead+"Content-Length: 4194304\r\n\r\n{")
	c.SetReadDeadline(time.Now().Add(10 * bodyTime))
	if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("%q, %v, want 408 and the end", answer, err)
	}
}
