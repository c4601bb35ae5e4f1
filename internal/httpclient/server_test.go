package httpclient

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// rawServer calls serve with each accepted connection and its number, and then closes it.
type rawServer struct {
	url  *url.URL
	l    net.Listener
	done chan struct{} // closed at the end of the test

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	wg    sync.WaitGroup
}

func serve(t testing.TB, serve func(c *serverConn)) *rawServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, serve)
}

func serveOn(t testing.TB, l net.Listener, serve func(c *serverConn)) *rawServer {
	s := &rawServer{l: l, done: make(chan struct{}), url: &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/mcp"}}
	s.wg.Go(func() { s.accept(serve) })
	t.Cleanup(s.close)
	return s
}

func (s *rawServer) accept(serve func(c *serverConn)) {
	for n := 1; ; n++ {
		nc, err := s.l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, nc)
		s.mu.Unlock()
		s.wg.Go(func() {
			defer nc.Close()
			serve(&serverConn{Conn: nc.(*net.TCPConn), done: s.done, n: n, r: bufio.NewReader(nc)})
		})
	}
}

// count returns the number of connections so far.
func (s *rawServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *rawServer) close() {
	if s.l.Close() != nil {
		return // the test has closed it
	}
	close(s.done)
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// serverConn is the server's end of a connection.
type serverConn struct {
	Conn *net.TCPConn
	done chan struct{}
	n    int // from 1
	r    *bufio.Reader
}

// head reads the head of a request and returns it with the length of its body; nil at the end.
func (c *serverConn) head() (lines []string, length int) {
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return nil, 0
		}
		line = strings.TrimSpace(line)
		if line == "" {
			return lines, length
		}
		lines = append(lines, line)
		fmt.Sscanf(line, "Content-Length: %d", &length)
	}
}

// request reads a whole request and returns its body; false at the end.
func (c *serverConn) request() (string, bool) {
	lines, length := c.head()
	body := make([]byte, length)
	_, err := io.ReadFull(c.r, body)
	return string(body), lines != nil && err == nil
}

// write sends a response unchanged.
func (c *serverConn) write(answer string) { io.WriteString(c.Conn, answer) }

// stall blocks until the end of the test.
func (c *serverConn) stall() { <-c.done }

// hung waits until the client has closed the connection.
func (c *serverConn) hung() { io.Copy(io.Discard, c.r) }

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// echo responds to each request of a connection with its body.
func echo(c *serverConn) {
	for {
		body, more := c.request()
		if !more {
			return
		}
		c.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}
}

// standard returns an http.Transport as for backends.
func standard() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
}

// lean returns a Transport that makes the requests to s itself.
func lean(t testing.TB, s *rawServer, std *http.Transport) *Transport {
	l := New(s.url, std)
	if onUnix && l.host == "" {
		t.Fatal("the transport leaves everything to net/http")
	}
	t.Cleanup(l.CloseIdleConnections)
	return l
}

func post(ctx context.Context, s *rawServer, body string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url.String(), strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	return r
}

// ask makes a request and reads its response.
func ask(by http.RoundTripper, r *http.Request) (*http.Response, string, error) {
	resp, err := by.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// must makes a request and checks that the body is want.
func must(t *testing.T, by http.RoundTripper, r *http.Request, want string) {
	t.Helper()
	if resp, body, err := ask(by, r); err != nil || resp.StatusCode != 200 || body != want {
		t.Fatalf("the answer is %.60q, %v; want %.60q", body, err, want)
	}
}
