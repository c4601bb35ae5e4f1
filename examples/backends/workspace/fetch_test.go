package workspace

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// allowed serves h on a loopback address that the workspace may fetch.
func allowed(t *testing.T, o Options, h http.HandlerFunc) (client, string) {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	o.AllowHosts = []string{web.Listener.Addr().String()}
	return start(t, o), web.URL
}

func TestFetchReturnsStatusAndBody(t *testing.T) {
	c, url := allowed(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/gone", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusGone)
		io.WriteString(w, "bye")
	})
	got := asJSON(c.ok("fetch", args{"url": url + "/moved"}))
	want := fmt.Sprintf(`{"contentType":"text/plain","status":410,"text":"bye","truncated":false,"url":"%s/gone"}`, url)
	if got != want {
		t.Errorf("fetch:\n got %s\nwant %s", got, want)
	}
}

func TestFetchRefusesPrivateAddresses(t *testing.T) {
	reached := false
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	c := start(t, Options{})
	for _, host := range []string{
		"127.0.0.1", "localhost", "0.0.0.0", "[::]", "[::1]", "[::ffff:127.0.0.1]", "127.1.2.3", "169.254.169.254", "[fd00:ec2::254]",
		"10.0.0.1", "192.168.0.1", "100.100.100.200", "[fe80::1]", "[64:ff9b::7f00:1]",
	} {
		t.Run(host, func(t *testing.T) {
			client{t, c.s, ""}.refused("private_address", "fetch", args{"url": "http://" + host + ":" + port + "/"})
		})
	}
	if reached {
		t.Error("a fetch reached the server")
	}
}

func TestFetchRefusesRedirectsToPrivateAddresses(t *testing.T) {
	secret := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer secret.Close()
	for name, tt := range map[string]struct{ to, code string }{
		"loopback":    {secret.URL, "private_address"},
		"metadata":    {"http://169.254.169.254/latest/meta-data/", "private_address"},
		"file":        {"file:///etc/passwd", "bad_arguments"},
		"credentials": {"http://user:pass@example.com/", "bad_arguments"},
	} {
		t.Run(name, func(t *testing.T) {
			c, url := allowed(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, tt.to, http.StatusFound)
			})
			c.refused(tt.code, "fetch", args{"url": url})
		})
	}
}

func TestFetchHasCaps(t *testing.T) {
	c, url := allowed(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/loop" {
			http.Redirect(w, r, "/loop", http.StatusFound)
			return
		}
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 4096)); err != nil {
				return
			}
		}
	})
	got := c.ok("fetch", args{"url": url, "maxBytes": 10})
	if got["text"] != "xxxxxxxxxx" || got["truncated"] != true {
		t.Errorf("fetch of an endless body with maxBytes 10: got %v", got)
	}
	if got := c.ok("fetch", args{"url": url}); len(got["text"].(string)) != maxBody {
		t.Errorf("fetch of an endless body: got %d bytes, want %d", len(got["text"].(string)), maxBody)
	}
	c.refused("unreachable", "fetch", args{"url": url + "/loop"})
}

func TestFetchTimesOut(t *testing.T) {
	c, url := allowed(t, Options{FetchTimeout: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	c.refused("timeout", "fetch", args{"url": url})
}

func TestFetchRefusesOtherURLs(t *testing.T) {
	c := start(t, Options{})
	for _, url := range []string{"file:///etc/passwd", "ftp://example.com", "//example.com", "http://", "http://a:b@example.com/", "%zz"} {
		c.refused("bad_arguments", "fetch", args{"url": url})
	}
}
