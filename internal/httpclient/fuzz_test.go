package httpclient

import (
	"context"
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// player is a server that responds to the n-th request of a test with the n-th of some texts.
type player struct {
	*rawServer

	mu    sync.Mutex
	plays []play // guarded by mu; the next one first
	count int    // guarded by mu: how many requests came
	conn  int    // guarded by mu: the connection of the last one
	wrote chan bool
	read  chan struct{}
}

// play is one response and how it is sent.
type play struct {
	text   string
	pieces int  // bytes in each write; 0: all in one
	closes bool // the connection ends with it
}

func newPlayer(t testing.TB) *player {
	p := &player{wrote: make(chan bool, 1), read: make(chan struct{}, 1)}
	p.rawServer = serve(t, p.play)
	return p
}

// play responds to the requests of one connection. wrote receives whether the connection is still
// open after the response was sent and read by the client; the connection is closed for a client
// that waits for more.
func (p *player) play(c *serverConn) {
	for {
		if _, more := c.request(); !more {
			return
		}
		p.mu.Lock()
		next := p.plays[0]
		p.plays, p.conn = p.plays[1:], c.n
		p.count++
		p.mu.Unlock()
		for text := next.text; text != ""; {
			n := len(text)
			if next.pieces > 0 {
				n = min(n, next.pieces)
			}
			c.write(text[:n])
			text = text[n:]
		}
		open := !next.closes
		if open {
			select {
			case <-p.read:
			case <-time.After(5 * time.Millisecond):
				open = false
			}
		}
		if !open {
			c.Conn.CloseWrite()
		}
		p.wrote <- open
		if !open {
			c.hung()
			return
		}
	}
}

// ask makes one request, and returns the outcome, the connection and whether the server left it
// open.
func (p *player) ask(ctx context.Context, by http.RoundTripper, next play) (got string, conn int, open bool) {
	p.mu.Lock()
	p.plays = []play{next}
	p.mu.Unlock()
	resp, err := by.RoundTrip(post(ctx, p.rawServer, "{}"))
	if err != nil {
		got = "no answer"
	} else if resp.StatusCode == http.StatusSwitchingProtocols { // http.Transport hands out the connection
		resp.Body.Close()
		got = "101"
	} else {
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		got = outcome(resp, string(body), err)
	}
	p.read <- struct{}{}
	open = <-p.wrote
	select {
	case <-p.read:
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return got, p.conn, open
}

// FuzzAnswers: this package interprets responses on reused connections as http.Transport does,
// which keeps its connection wherever this package does.
func FuzzAnswers(f *testing.F) {
	log.SetOutput(io.Discard) // http.Transport reports what comes unasked
	const fine = "HTTP/1.1 200 OK\r\n"
	for _, seed := range []string{
		ok + "\x00" + ok + "\x00" + ok,
		fine + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: v\r\n\r\n\x00" + ok,
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok + "\x00" + ok,
		fine + "\r\nto the end\x00" + ok,
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok\x00" + ok,
		ok + ok + "\x00" + ok,
		fine + "Content-Length: 9\r\n\r\nabc\x00" + ok,
		fine + "Connection: close\r\nContent-Length: 2\r\n\r\nok\x00" + ok,
		"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n\x00" + ok,
		"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n\x00" + ok,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx\x00" + ok,
		fine + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc\x00" + ok,
		fine + "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n\x00" + ok,
	} {
		f.Add(seed, uint8(0), uint8(0))
		f.Add(seed, uint8(3), uint8(1))
		f.Add(seed, uint8(1), uint8(2))
	}
	ours, theirs := newPlayer(f), newPlayer(f)
	l, std := lean(f, ours.rawServer, standard()), standard()
	f.Cleanup(std.CloseIdleConnections)
	f.Fuzz(func(t *testing.T, answers string, pieces, closes uint8) {
		l.CloseIdleConnections()
		std.CloseIdleConnections()
		before := 0
		for i, text := range strings.SplitN(answers, "\x00", 4) {
			next := play{text: text, pieces: int(pieces), closes: closes>>i&1 != 0}
			if len(text) > 4<<10 {
				next.pieces = 0
			}
			got, _, open := ours.ask(t.Context(), l, next)
			want, conn, theirsOpen := theirs.ask(t.Context(), std, next)
			if got != want {
				t.Fatalf("answer %d, %q, is\n%s\nand to http.Transport\n%s", i, text, got, want)
			}
			if before != 0 && conn != before {
				t.Fatalf("http.Transport has not kept its connection for answer %d, this package has", i)
			}
			if before = conn; !open || !theirsOpen || !isKept(l) {
				l.CloseIdleConnections()
				std.CloseIdleConnections()
				before = 0
			}
		}
	})
}

// isKept reports whether there is a connection for the next request.
func isKept(l *Transport) bool {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return len(l.pool.idle) == 1 && l.pool.idle[0].isSilent()
}
