package credentials

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/config"
)

func TestUsersAreBounded(t *testing.T) {
	p := NewPool(Options{})
	defer p.Close()
	x := p.Provider(config.Backend{Name: "b", Outgoing: &config.OutgoingStrategy{Type: config.ExchangeToken, TokenExchange: config.TokenExchange{TokenURL: "http://127.0.0.1:1/token"}}})
	first, err := x.For(&User{Key: "first", Token: "a.b.c"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxUsers {
		if _, err := x.For(&User{Key: fmt.Sprint(i), Token: "a.b.c"}); err != nil {
			t.Fatal(err)
		}
	}
	kept := &x.users.(*exchanger).users
	if n := len(kept.all); n != maxUsers || kept.recent.Len() != n {
		t.Errorf("%d principals are kept, %d in order, want %d", n, kept.recent.Len(), maxUsers)
	}
	if again, err := x.For(&User{Key: "first", Token: "a.b.c"}); err != nil || again == first {
		t.Errorf("the one unused longest is still there: %v", err)
	}
	if s, err := x.For(&User{Key: fmt.Sprint(maxUsers - 1)}); err != nil || s == nil {
		t.Errorf("the newest one without a token of its own: %v", err)
	}
}

// A token is renewed after nine tenths of its lifetime.
func TestLasting(t *testing.T) {
	now := time.Now()
	if got := lasting("v", now, now.Add(100*time.Second)); got.renew != now.Add(90*time.Second) || got.until != now.Add(100*time.Second) {
		t.Errorf("%+v", got)
	}
	if got := lasting("v", now, time.Time{}); got.until != now.Add(tokenLife) {
		t.Errorf("without an end: %+v", got)
	}
}

func TestStoredLoginsAreBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.db")
	s, err := OpenStore(config.TokenStore{File: file, Key: base64.StdEncoding.EncodeToString(make([]byte, 32))})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "b", "first", &Grant{Access: "a"}); err != nil {
		t.Fatal(err)
	}
	records := s.records
	for i := range maxGrants - 1 {
		r := records[0]
		r.Principal = fmt.Sprint(i)
		records = append(records, r)
	}
	text, err := json.Marshal(map[string]any{"version": 1, "records": records})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "b", "one more", &Grant{}); err == nil || !strings.Contains(err.Error(), "10000 logins are stored") {
		t.Errorf("one more: %v", err)
	}
	if err := s.Put(t.Context(), "b", "first", &Grant{Access: "b"}); err != nil {
		t.Errorf("in the place of one that is there: %v", err)
	}
}

// TestPendingLoginsAreBounded, for one principal and in all; a repeated request returns the pending one.
func TestPendingLoginsAreBounded(t *testing.T) {
	p := NewPool(Options{})
	defer p.Close()
	p.kept = &Store{}
	begin := func(user string, i int) error {
		_, err := p.Begin(config.Backend{Name: fmt.Sprint("b", i)}, LoginNeeded{User: &User{Key: user}}, "http://127.0.0.1")
		return err
	}
	for i := range maxPendingOf {
		if err := begin("ann", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin("ann", 0); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if err := begin("ann", maxPendingOf); err != errManyLogins {
		t.Errorf("one more of ann: %v", err)
	}
	for i := range maxPending - maxPendingOf {
		if err := begin(fmt.Sprint("user", i), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin("bob", 0); err != errManyLogins || len(p.logins.all) != maxPending {
		t.Errorf("one more of bob: %v; %d are open, want %d", err, len(p.logins.all), maxPending)
	}
}
