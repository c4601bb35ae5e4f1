package httpclient

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMaxIdle: as many connections are kept as std allows; more are opened, and closed after
// their response.
func TestMaxIdle(t *testing.T) {
	const callers, kept = 5, 2
	var arrived sync.WaitGroup
	arrived.Add(callers)
	closed := make(chan struct{}, callers)
	s := serve(t, func(c *serverConn) {
		c.request()
		arrived.Done()
		arrived.Wait() // all run at once
		c.write(ok)
		c.hung()
		closed <- struct{}{}
	})
	std := standard()
	std.MaxIdleConnsPerHost = kept
	l := lean(t, s, std)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			if _, body, err := ask(l, post(t.Context(), s, "x")); err != nil || body != "ok" {
				t.Errorf("the answer is %q, %v", body, err)
			}
		})
	}
	wg.Wait()
	for range callers - kept {
		<-closed
	}
	if n := len(l.pool.idle); n != kept {
		t.Errorf("%d connections are kept", n)
	}
	l.CloseIdleConnections()
	for range kept {
		<-closed
	}
}

// TestIdleTimeout: pooled connections are closed after the timeout, and not used after it.
func TestIdleTimeout(t *testing.T) {
	closed := make(chan struct{}, 10)
	s := serve(t, func(c *serverConn) {
		echo(c)
		closed <- struct{}{}
	})
	std := standard()
	std.IdleConnTimeout = 20 * time.Millisecond
	l := lean(t, s, std)
	must(t, l, post(t.Context(), s, "one"), "one")
	<-closed
	must(t, l, post(t.Context(), s, "two"), "two")
	<-closed
	if l.pool.get() != nil {
		t.Error("a connection is kept")
	}

	std.IdleConnTimeout = time.Hour
	l = lean(t, s, std)
	must(t, l, post(t.Context(), s, "three"), "three")
	l.pool.idle[0].since = time.Now().Add(-time.Hour) // the timer did not run: the machine slept
	must(t, l, post(t.Context(), s, "four"), "four")
	<-closed
	if n := s.count(); n != 4 {
		t.Errorf("%d connections were opened", n)
	}
}

// TestCloseIdleConnections: connections of running requests are closed later, too.
func TestCloseIdleConnections(t *testing.T) {
	closed := make(chan struct{}, 10)
	s := serve(t, func(c *serverConn) {
		echo(c)
		closed <- struct{}{}
	})
	l := lean(t, s, standard())
	resp, err := l.RoundTrip(post(t.Context(), s, "one"))
	if err != nil {
		t.Fatal(err)
	}
	l.CloseIdleConnections()
	resp.Body.Read(make([]byte, 100)) // to its end
	<-closed
	must(t, l, post(t.Context(), s, "two"), "two") // and goes on after it
	if len(l.pool.idle) != 1 {
		t.Error("the connection of a later request is not kept")
	}
	if other := l.Clone(); len(other.pool.idle) > 0 || other.host != l.host {
		t.Errorf("a clone has %d connections, and makes the requests to %q", len(other.pool.idle), other.host)
	}
	l.CloseIdleConnections()
	<-closed
}

// TestKeptConnectionEnds: a server may close pooled connections, or send data on them; the next
// request uses another one.
func TestKeptConnectionEnds(t *testing.T) {
	for _, after := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged", "HTTP/1.1 408 Request Timeout\r\n\r\n"} {
		ended := make(chan struct{})
		s := serve(t, func(c *serverConn) {
			c.request()
			if c.write(ok); c.n > 1 {
				c.hung()
				return
			}
			if c.write(after); after == "" {
				c.Conn.CloseWrite()
			}
			close(ended)
			c.hung()
		})
		l := lean(t, s, standard())
		must(t, l, post(t.Context(), s, "one"), "ok")
		<-ended
		must(t, l, post(t.Context(), s, "two"), "ok")
		if n := s.count(); n != 2 {
			t.Errorf("behind %q: %d connections were opened", after, n)
		}
	}
}

// TestEverythingElse: http.Transport makes all requests that are not plain requests to the server.
func TestEverythingElse(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method, " ", r.Host) })
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	var seen []string
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { seen = append(seen, p.In.URL.String()) }})
	t.Cleanup(proxy.Close)

	check := func(name string, std *http.Transport, target string, isLean bool) {
		t.Helper()
		u, _ := url.Parse(target)
		l := New(u, std)
		defer l.CloseIdleConnections()
		if (l.host != "") != isLean {
			t.Errorf("%s: requests are made by this package: %t", name, !isLean)
		}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader("x"))
		if resp, body, err := ask(l, r); err != nil || body != "POST "+u.Host || resp.StatusCode != 200 {
			t.Errorf("%s: the answer is %q, %v", name, body, err)
		}
	}
	proxied := standard()
	proxied.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }
	check("http", standard(), plain.URL, onUnix)
	check("TLS", secure.Client().Transport.(*http.Transport), secure.URL, false)
	check("a proxy", proxied, plain.URL, false)
	if len(seen) != 1 || seen[0] != plain.URL+"/" {
		t.Errorf("the proxy was asked for %q", seen)
	}
	if l := New(nil, standard()); l.host != "" {
		t.Error("a server without a URL is asked")
	}

	l := New(&url.URL{Scheme: "http", Host: "other.example"}, standard())
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, plain.URL, strings.NewReader("x"))
	if _, body, err := ask(l, r); err != nil || !strings.HasPrefix(body, "POST ") {
		t.Errorf("another server: %q, %v", body, err)
	}
	l.CloseIdleConnections()
}
