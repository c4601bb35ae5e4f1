//go:build unix

package outgoing_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/logins"
)

// A login of a principal works with any choice of replicas by a balancer: one asks for it, another shows the page, a third
// gets the consent, and the browser returns to any. It is valid once, and only in the browser that agreed.
func TestALoginThroughAnyReplica(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	p := newProvider(t)
	g := loginServer(t, p)
	cfg := with(config.Backend{URL: g.URL + "/mcp"}, config.OutgoingStrategy{Type: "oauth", OAuth: config.OutgoingOAuth{PerUser: true, AllowPrivateIP: true}})
	cfg.Complete()
	var pools []*credentials.Pool
	var kept []*credentials.Shared
	for range 3 {
		pool, shared := logins.Replica(t, server.URL())
		pool.Provider(cfg.Backends[0])
		pools, kept = append(pools, pool), append(kept, shared)
	}
	var page, consent, back atomic.Int32 // which replica gets what
	var came atomic.Pointer[url.URL]     // the redirect of the browser
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := page.Load()
		switch {
		case r.Method == http.MethodPost:
			to = consent.Load()
		case strings.HasPrefix(r.URL.Path, credentials.CallbackPages):
			to = back.Load()
			came.Store(r.URL)
		}
		pools[to].ServeHTTP(w, r)
	}))
	defer front.Close()
	alice := &credentials.User{Key: "issuer|alice", Issuer: "issuer", Subject: "alice"}
	for _, way := range [][4]int32{{0, 1, 2, 1}, {0, 1, 2, 0}, {1, 1, 1, 2}, {2, 0, 0, 0}, {1, 1, 1, 1}} {
		page.Store(way[1])
		consent.Store(way[2])
		back.Store(way[3])
		n, err := pools[way[0]].Begin(cfg.Backends[0], credentials.LoginNeeded{Backend: "b", User: alice}, front.URL)
		if err != nil {
			t.Fatal(err)
		}
		waits := pools[(way[0]+1)%3].Pending(n.ID(), alice) // the client's next request arrives at another replica
		if waits == nil {
			t.Fatalf("%v: only the first replica has the login", way)
		}
		if pools[(way[0]+2)%3].Pending(n.ID(), &credentials.User{Key: "issuer|eve"}) != nil {
			t.Errorf("%v: the login is used for another principal", way)
		}
		jar, _ := cookiejar.New(nil)
		browser := &http.Client{Jar: jar, Timeout: time.Minute, Transport: http.DefaultClient.Transport}
		if status, text := open(t, browser, http.MethodGet, n.URL()); status != http.StatusOK || !strings.Contains(text, "alice") {
			t.Fatalf("%v: the page: %d %s", way, status, text)
		}
		if status, text := open(t, browser, http.MethodPost, n.URL()); status != http.StatusOK || !strings.Contains(text, "alice is logged in at b") {
			t.Fatalf("%v: behind the login: %d %s", way, status, text)
		}
		for i, l := range []*credentials.PendingLogin{n, waits} {
			select {
			case <-l.Done():
			case <-time.After(waitTime):
				t.Fatalf("%v: the waiting client is not notified (%d)", way, i)
			}
			if err := l.Err(); err != nil {
				t.Errorf("%v: %v", way, err)
			}
		}
		for i, k := range kept {
			if g, err := k.Find(t.Context(), "b", alice.Key); err != nil || g == nil || !p.good("Bearer "+g.Access) {
				t.Errorf("%v: replica %d has %+v, %v", way, i, g, err)
			}
		}
		for i := range int32(3) { // neither again, nor in another browser
			back.Store(i)
			for _, with := range []*http.Client{browser, http.DefaultClient} {
				if status, _ := open(t, with, http.MethodGet, front.URL+came.Load().String()); status != http.StatusBadRequest {
					t.Errorf("%v: the same answer once more, at replica %d: %d", way, i, status)
				}
			}
		}
		if _, err := kept[0].RemoveAll(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
	}
}

// open opens a page, and follows its redirects.
func open(t *testing.T, c *http.Client, method, page string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}
