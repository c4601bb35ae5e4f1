package httpclient

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// outcome returns the outcome of a request in one line; errors are compared by where they occur.
func outcome(resp *http.Response, body string, err error) string {
	if resp == nil {
		return "no answer"
	}
	var b strings.Builder
	fmt.Fprint(&b, resp.Proto, " ", resp.Status, " ", resp.ContentLength, " ", resp.TransferEncoding, " ", resp.Close)
	for _, h := range []http.Header{resp.Header, resp.Trailer} {
		b.WriteString(" |")
		for _, k := range slices.Sorted(maps.Keys(h)) {
			fmt.Fprintf(&b, " %s%q", k, h[k])
		}
	}
	fmt.Fprintf(&b, " | %q", body)
	if err != nil {
		b.WriteString(" broken")
	}
	return b.String()
}

// TestAnswers: this package interprets all responses as http.Transport does, and keeps the connection
// only if the next response can be distinguished from this one.
func TestAnswers(t *testing.T) {
	const fine = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		name, answer, want string
		kept               bool
	}{
		{"length", fine + "Content-Length: 3\r\nX-A: b\r\n\r\nabc", `HTTP/1.1 200 OK 3 [] false | Content-Length["3"] X-A["b"] | | "abc"`, true},
		{"length twice", fine + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", `HTTP/1.1 200 OK 3 [] false | Content-Length["3"] | | "abc"`, true},
		{"two lengths", fine + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "no answer", false},
		{"length is no number", fine + "Content-Length: +3\r\n\r\nabc", "no answer", false},
		{"nothing", fine + "Content-Length: 0\r\n\r\n", `HTTP/1.1 200 OK 0 [] false | Content-Length["0"] | | ""`, true},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", `HTTP/1.1 204 No Content 0 [] false | | | ""`, true},
		{"accepted", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", `HTTP/1.1 202 Accepted 0 [] false | Content-Length["0"] | | ""`, true},
		{"chunks", fine + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", `HTTP/1.1 200 OK -1 [chunked] false | | | "abcde"`, true},
		{"chunks and trailer", fine + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\na\r\n0\r\nX-T: v\r\n\r\n", `HTTP/1.1 200 OK -1 [chunked] false | | X-T["v"] | "a"`, true},
		{"bad chunk", fine + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", `HTTP/1.1 200 OK -1 [chunked] false | | | "abc" broken`, false},
		{"chunk without end", fine + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcX", `HTTP/1.1 200 OK -1 [chunked] false | | | "abc" broken`, false},
		{"chunks and length", fine + "Transfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n1\r\na\r\n0\r\n\r\n", `HTTP/1.1 200 OK -1 [chunked] false | | | "a"`, true},
		{"gzip and chunked", fine + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "no answer", false},
		{"1xx", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, `HTTP/1.1 200 OK 2 [] false | Content-Length["2"] | | "ok"`, true},
		{"only 1xx", "HTTP/1.1 100 Continue\r\n\r\n", "no answer", false},
		{"to the end", fine + "X-A: b\r\n\r\nall of it", `HTTP/1.1 200 OK -1 [] true | X-A["b"] | | "all of it"`, false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", `HTTP/1.0 200 OK 2 [] true | Content-Length["2"] | | "ok"`, false},
		{"close", fine + "Connection: close\r\nContent-Length: 2\r\n\r\nok", `HTTP/1.1 200 OK 2 [] true | Content-Length["2"] | | "ok"`, false},
		{"extra bytes", ok + "HTTP/1.1 500 Forged\r\n\r\n", `HTTP/1.1 200 OK 2 [] false | Content-Length["2"] | | "ok"`, false},
		{"extra bytes behind nothing", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\nX", `HTTP/1.1 202 Accepted 0 [] false | Content-Length["0"] | | ""`, false},
		{"short", fine + "Content-Length: 9\r\n\r\nabc", `HTTP/1.1 200 OK 9 [] false | Content-Length["9"] | | "abc" broken`, false},
		{"silence", "", "no answer", false},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-Le", "no answer", false},
		{"no HTTP", "220 smtp.example\r\n\r\n", "no answer", false},
		{"bad status", "HTTP/1.1 2x0 OK\r\n\r\n", "no answer", false},
		{"bad header", fine + "no colon\r\n\r\n", "no answer", false},
		{"header with a space", fine + "X A: b\r\nContent-Length: 0\r\n\r\n", `HTTP/1.1 200 OK 0 [] false | Content-Length["0"] X A["b"] | | ""`, true},
		{"folded header", fine + "X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n", `HTTP/1.1 200 OK 0 [] false | Content-Length["0"] X-A["b c"] | | ""`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(c *serverConn) {
				if _, more := c.request(); !more {
					return
				}
				if c.write(tt.answer); tt.kept {
					echo(c)
				}
			})
			l := lean(t, s, standard())
			got := outcome(ask(l, post(t.Context(), s, "one")))
			std := standard()
			defer std.CloseIdleConnections()
			if theirs := outcome(ask(std, post(t.Context(), s, "one"))); got != tt.want || got != theirs {
				t.Errorf("the answer is\n %s\nwant\n %s\nand http.Transport says\n %s", got, tt.want, theirs)
			}
			if kept := len(l.pool.idle) == 1 && l.pool.idle[0].isSilent(); kept != tt.kept {
				t.Errorf("the connection was kept: %t", kept)
			}
		})
	}
}

// TestEndlessHead: a head is read up to the limit, informational ones together with the last.
func TestEndlessHead(t *testing.T) {
	for _, tt := range []struct{ name, first, again string }{
		{"one line", "HTTP/1.1 200 OK\r\nX: ", strings.Repeat("x", 1000)},
		{"lines", "HTTP/1.1 200 OK\r\n", "X: y\r\n"},
		{"informational heads", "", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(c *serverConn) {
				c.request()
				_, err := c.Conn.Write([]byte(tt.first))
				for err == nil {
					_, err = c.Conn.Write([]byte(tt.again))
				}
			})
			std := standard()
			std.MaxResponseHeaderBytes = 20_000
			_, _, err := ask(lean(t, s, std), post(t.Context(), s, "x"))
			if err == nil || err.Error() != "the head of the response has more than 20000 bytes" {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestLargeHead: heads within the limit are read, and the limit applies to each response.
func TestLargeHead(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 15_000) + "\r\nContent-Length: 100000\r\n\r\n"
	body := strings.Repeat("y", 100_000)
	s := serve(t, func(c *serverConn) {
		for {
			if _, more := c.request(); !more {
				return
			}
			c.write(head + body)
		}
	})
	std := standard()
	std.MaxResponseHeaderBytes = 20_000
	l := lean(t, s, std)
	for range 3 {
		must(t, l, post(t.Context(), s, "x"), body)
	}
	if n := s.count(); n != 1 {
		t.Errorf("%d connections were opened", n)
	}
}

// TestSwitchingProtocols: without a request for another protocol.
func TestSwitchingProtocols(t *testing.T) {
	s := serve(t, func(c *serverConn) {
		c.request()
		c.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nwhatever")
		c.hung()
	})
	l := lean(t, s, standard())
	if resp, body, err := ask(l, post(t.Context(), s, "x")); err != nil || resp.StatusCode != 101 || body != "" || len(l.pool.idle) > 0 {
		t.Errorf("the answer is %v %q, %v; %d connections are kept", resp, body, err, len(l.pool.idle))
	}
}
