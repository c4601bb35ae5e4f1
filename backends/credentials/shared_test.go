//go:build unix

package credentials_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/test/logins"
)

// rotating is a token endpoint whose refresh tokens are valid once: the reuse of one revokes the login, as RFC 9700
// requires.
type rotating struct {
	mu      sync.Mutex
	n       int
	revoked bool
	during  func() // called while a token is asked for
}

func (a *rotating) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.during != nil {
		a.during()
	}
	w.Header().Set("Content-Type", "application/json")
	if used := r.FormValue("refresh_token"); a.revoked || used != fmt.Sprint("refresh-token-", a.n) {
		a.revoked = true
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	a.n++
	fmt.Fprintf(w, `{"access_token":"access-token-%d","refresh_token":"refresh-token-%d","token_type":"Bearer","expires_in":3600}`, a.n, a.n)
}

func (a *rotating) state() (renewals int, revoked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n, a.revoked
}

// replicas returns n sources of the same login over one database, as in n processes.
func replicas(t *testing.T, server *runstest.Server, as string, n int) (sources []credentials.Source, kept []*credentials.Shared) {
	t.Helper()
	for range n {
		pool, shared := logins.Replica(t, server.URL())
		b := config.Backend{Name: "shop", URL: as + "/mcp", Outgoing: &config.OutgoingStrategy{Type: config.Login, OAuth: config.OutgoingOAuth{AllowPrivateIP: true}}}
		sources, kept = append(sources, pool.Provider(b).Shared()), append(kept, shared)
	}
	return sources, kept
}

// Replicas that find the token refused at the same time renew it once: a second use of the refresh token would revoke
// the login.
func TestReplicasRenewOnce(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	as := &rotating{}
	front := httptest.NewServer(as)
	defer front.Close()
	sources, kept := replicas(t, server, front.URL, 3)
	if _, err := sources[0].Get(t.Context()); err == nil {
		t.Fatal("a token without a login")
	}
	if err := kept[0].Put(t.Context(), "shop", "", &credentials.Grant{TokenURL: front.URL, ClientID: "c", Access: "access-token-0", Refresh: "refresh-token-0"}); err != nil {
		t.Fatal(err)
	}
	const rounds = 20
	for round := range rounds {
		want := credentials.Credential{Header: "Authorization", Value: fmt.Sprint("Bearer access-token-", round)}
		for i, s := range sources {
			got, err := s.Get(t.Context())
			if err != nil || got != want {
				t.Fatalf("round %d, replica %d: %v, %v, want %v", round, i, got, err, want)
			}
			s.Refused(got)
		}
		var wg sync.WaitGroup
		for i, s := range sources {
			wg.Go(func() {
				if got, err := s.Get(t.Context()); err != nil || got.Value != fmt.Sprint("Bearer access-token-", round+1) {
					t.Errorf("round %d, replica %d behind the renewal: %v, %v", round, i, got, err)
				}
			})
		}
		wg.Wait()
	}
	if n, revoked := as.state(); n != rounds || revoked {
		t.Errorf("%d renewals, want %d; revoked: %v", n, rounds, revoked)
	}
	if n, err := kept[1].RemoveAll(t.Context(), "shop"); n != 1 || err != nil {
		t.Errorf("RemoveAll: %d, %v", n, err)
	}
	if g, err := kept[2].Find(t.Context(), "shop", ""); g != nil || err != nil {
		t.Errorf("Find behind a logout: %+v, %v", g, err)
	}
}

// No refresh token is lost when the database fails between the response of the authorization server and the end of
// the transaction: the replica keeps and uses it, and writes it when the database is back.
func TestRenewedWhileTheStoreGoes(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	as := &rotating{}
	front := httptest.NewServer(as)
	defer front.Close()
	sources, kept := replicas(t, server, front.URL, 2)
	if err := kept[0].Put(t.Context(), "shop", "", &credentials.Grant{TokenURL: front.URL, ClientID: "c", Access: "access-token-0", Refresh: "refresh-token-0"}); err != nil {
		t.Fatal(err)
	}
	first, err := sources[0].Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sources[0].Refused(first)
	as.during = func() { server.Down(t) }
	if got, err := sources[0].Get(t.Context()); err != nil || got.Value != "Bearer access-token-1" {
		t.Fatalf("Get while the store goes away: %v, %v", got, err)
	}
	as.during = nil
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if g, err := kept[0].Find(ctx, "shop", ""); err != nil || g.Refresh != "refresh-token-1" {
		t.Errorf("Find without the store: %+v, %v", g, err)
	}
	server.Up(t)
	if g, err := kept[0].Find(t.Context(), "shop", ""); err != nil || g.Refresh != "refresh-token-1" {
		t.Errorf("Find with the store: %+v, %v", g, err)
	}
	if got, err := sources[1].Get(t.Context()); err != nil || got.Value != "Bearer access-token-1" {
		t.Errorf("Get of the other replica: %v, %v", got, err)
	}
	if n, revoked := as.state(); n != 1 || revoked {
		t.Errorf("%d renewals, want 1; revoked: %v", n, revoked)
	}
}
