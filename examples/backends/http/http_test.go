package http_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/examples/backends/http"
	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolclient"
)

type args = toolclient.Args

type answer struct {
	URL          string
	Status       int
	Headers      map[string]string
	Text, Base64 string
	Truncated    bool
}

func startHTTP(t *testing.T, o http.Options) *toolclient.Client {
	t.Helper()
	q, err := http.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return toolclient.Start(t, q.Server())
}

// serve is a server of this machine, and its host:port.
func serve(t *testing.T, h nethttp.HandlerFunc) (url, host string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, s.Listener.Addr().String()
}

func TestGetAndPost(t *testing.T) {
	t.Parallel()
	url, host := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Header.Get("X-Own"))
		w.WriteHeader(nethttp.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"), body)
	})
	c := startHTTP(t, http.Options{Allow: []string{host}, AllowPrivate: true})
	var a answer
	c.OK("http_get", args{"url": url + "/a", "headers": args{"X-Own": "yes"}}, &a)
	if a.Status != 418 || a.Text != "GET /a  " || a.Headers["X-Seen"] != "yes" || a.URL != url+"/a" || a.Truncated {
		t.Errorf("%+v", a)
	}
	c.OK("http_post", args{"url": url + "/b", "body": `{"n":1}`}, &a)
	if a.Text != `POST /b application/json {"n":1}` {
		t.Errorf("%+v", a)
	}
}

func TestOnlyTheListIsAsked(t *testing.T) {
	t.Parallel()
	url, host := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) { t.Error("asked") })
	c := startHTTP(t, http.Options{Allow: []string{"api.example.com", "other.example.com:8443", "[::1]"}, AllowPrivate: true})
	for _, to := range []string{
		url, "http://" + host + "#api.example.com", "http://api.example.com.evil.test/", "http://evil.test/?api.example.com",
		"http://api.example.com:8080/", "https://other.example.com/", "http://xapi.example.com/", "http://[::1]:81/", "http://2130706433/",
	} {
		c.Refused("http_get", args{"url": to}, http.NotAllowed)
		c.Refused("http_post", args{"url": to, "body": "x"}, http.NotAllowed)
	}
	for _, to := range []string{
		"", "api.example.com", "//api.example.com", "file:///etc/passwd", "ftp://api.example.com/", "http://", "http://%zz",
		"http://api.example.com@evil.test/", "http://user:secret@api.example.com/", "http://api.example.com\n.evil.test/",
	} {
		if text := c.Refused("http_get", args{"url": to}, http.BadArguments); strings.Contains(text, "secret") {
			t.Error(text)
		}
	}
	for _, name := range []string{"Host", "host", "Transfer-Encoding", "Connection", "X Y", "", "A:B", "X\r\nY"} {
		c.Refused("http_get", args{"url": "http://api.example.com/", "headers": args{name: "x"}}, http.BadArguments)
	}
	c.Refused("http_get", args{"url": "http://api.example.com/", "headers": args{"X": "a\r\nHost: b"}}, http.BadArguments)
}

// A name of the list that resolves to a private address is refused when it is dialled.
func TestAddressesAreCheckedWhenDialled(t *testing.T) {
	url, host := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) { t.Error("asked") })
	_, port, _ := net.SplitHostPort(host)
	c := startHTTP(t, http.Options{Allow: []string{host, "localhost:" + port, "LOCALHOST:" + port, "169.254.169.254", "[::ffff:127.0.0.1]:" + port}})
	for _, to := range []string{url, "http://localhost:" + port, "http://169.254.169.254/latest/", "http://[::ffff:127.0.0.1]:" + port} {
		c.Refused("http_get", args{"url": to}, http.Private)
	}
}

// A redirect is followed to hosts of the list only, and headers for one host are not sent to another.
func TestRedirects(t *testing.T) {
	t.Parallel()
	evil, _ := serve(t, func(nethttp.ResponseWriter, *nethttp.Request) { t.Error("asked") })
	second, secondHost := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%q %q %q %s", r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"), r.Header.Get("Referer"), body)
	})
	to := ""
	first, firstHost := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch r.URL.Path {
		case "/here":
			io.WriteString(w, r.Header.Get("X-Api-Key"))
		case "/loop":
			nethttp.Redirect(w, r, "/loop", nethttp.StatusFound)
		default:
			nethttp.Redirect(w, r, to, nethttp.StatusTemporaryRedirect)
		}
	})
	c := startHTTP(t, http.Options{Allow: []string{firstHost, secondHost}, AllowPrivate: true})
	secrets := args{"X-Api-Key": "k1", "Authorization": "Bearer k2"}
	var a answer
	to = "/here"
	c.OK("http_get", args{"url": first, "headers": secrets}, &a)
	if a.Text != "k1" {
		t.Errorf("within a host: %+v", a)
	}
	to = second
	c.OK("http_post", args{"url": first, "headers": secrets, "body": "b"}, &a)
	if a.Text != `"" "" "" b` || a.URL != second {
		t.Errorf("to another host: %+v", a)
	}
	for _, to = range []string{evil, "http://127.0.0.1:1/"} {
		c.Refused("http_get", args{"url": first}, http.NotAllowed)
	}
	to = "file:///etc/passwd"
	c.Refused("http_get", args{"url": first}, http.BadArguments)
	c.Refused("http_get", args{"url": first + "/loop"}, http.Unreachable)
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	url, host := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		switch r.URL.Path {
		case "/slow":
			w.(nethttp.Flusher).Flush()
			<-r.Context().Done()
		case "/bytes":
			w.Write([]byte{0xff, 0xfe, 0})
		default:
			for {
				if _, err := io.WriteString(w, strings.Repeat("xüx", 4096)); err != nil {
					return
				}
			}
		}
	})
	c := startHTTP(t, http.Options{Allow: []string{host}, AllowPrivate: true})
	var a answer
	c.OK("http_get", args{"url": url}, &a)
	if n := len(a.Text); n < 1<<20-3 || n > 1<<20 || !a.Truncated {
		t.Errorf("%d bytes, truncated %t", n, a.Truncated)
	}
	a = answer{}
	c.OK("http_get", args{"url": url + "/bytes"}, &a)
	if a.Base64 != base64.StdEncoding.EncodeToString([]byte{0xff, 0xfe, 0}) || a.Text != "" {
		t.Errorf("%+v", a)
	}
	c = startHTTP(t, http.Options{Allow: []string{host}, AllowPrivate: true, Timeout: 50 * time.Millisecond})
	c.Refused("http_get", args{"url": url + "/slow"}, http.TimedOut)
}

func TestTheListIsChecked(t *testing.T) {
	for _, host := range []string{"", "http://a", "a/b", "*.example.com", "a:b:c", "u@a", "a b"} {
		if _, err := http.New(http.Options{Allow: []string{host}}); err == nil {
			t.Errorf("-allow %q is accepted", host)
		}
	}
	if _, err := http.New(http.Options{}); err == nil {
		t.Error("no list is accepted")
	}
}
