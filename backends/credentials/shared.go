package credentials

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/files"
)

// A Keeper keeps grants: a file (*Store), or the database that replicas share (Shared).
type Keeper interface {
	// Find returns the grant of a principal at a backend, nil when there is none.
	Find(ctx context.Context, backend, principal string) (*Grant, error)
	// Put stores a grant, replacing any. It is durable when Put returns.
	Put(ctx context.Context, backend, principal string, g *Grant) error
	// Remove removes the grant of a principal at a backend, RemoveAll those of all principals; both return how many
	// there were.
	Remove(ctx context.Context, backend, principal string) (int, error)
	RemoveAll(ctx context.Context, backend string) (int, error)

	// renew calls f with a grant, nil for none, holding the grant's lock between goroutines and processes, and stores
	// what f returns in its place; nil: nothing changes. f is called once at most. Its error is returned unwrapped.
	renew(ctx context.Context, backend, principal string, f func(*Grant) (*Grant, error)) error
	// remote reports whether Find is a request over a network: a Get that has a token does not wait for it.
	remote() bool
}

// renew implements Keeper. Each grant has its own lock file beside the store.
func (s *Store) renew(ctx context.Context, backend, principal string, f func(*Grant) (*Grant, error)) error {
	unlock, err := files.Lock(s.path + ".renew-" + idOf(backend, principal))
	if err != nil {
		return unavailable("%w", err)
	}
	defer unlock()
	g, err := s.Find(ctx, backend, principal)
	if err != nil {
		return unavailable("%w", err)
	}
	next, err := f(g)
	if err != nil || next == nil {
		return err
	}
	if err := s.Put(ctx, backend, principal, next); err != nil {
		return unavailable("%w", err)
	}
	return nil
}

func (s *Store) remote() bool { return false }

// Rows is a table of sealed texts, one for each principal and backend, that several processes share.
type Rows interface {
	// Token returns a text; nil for none.
	Token(ctx context.Context, backend, principal string) ([]byte, error)
	PutToken(ctx context.Context, backend, principal string, text []byte) error
	// RenewToken calls f with a text while its row is locked, and stores what f returns; nil: nothing
	// changes. done reports whether f was called.
	RenewToken(ctx context.Context, backend, principal string, f func([]byte) ([]byte, error)) (done bool, err error)
	// RemoveTokens removes the text of a principal, nil for those of all, and returns how many there were.
	RemoveTokens(ctx context.Context, backend string, principal *string) (int, error)
}

// Shared keeps grants in rows. A renewed grant that could not be written is kept in memory until it can: after
// rotation its refresh token is the only valid one.
type Shared struct {
	rows Rows

	mu      sync.Mutex
	unsaved map[grantKey]*Grant // guarded by mu
}

type grantKey struct{ backend, principal string }

// maxUnsaved bounds the grants that are not written yet.
const maxUnsaved = maxGrants

// Share returns a keeper over rows.
func Share(rows Rows) *Shared { return &Shared{rows: rows, unsaved: map[grantKey]*Grant{}} }

// Find implements Keeper.
func (s *Shared) Find(ctx context.Context, backend, principal string) (*Grant, error) {
	if g := s.save(ctx, backend, principal); g != nil {
		return g, nil
	}
	text, err := s.rows.Token(ctx, backend, principal)
	if err != nil {
		return nil, err
	}
	return readGrant(text)
}

// save writes the unsaved grant, if there is one, and returns it.
func (s *Shared) save(ctx context.Context, backend, principal string) *Grant {
	k := grantKey{backend, principal}
	g := s.waiting(k)
	if g == nil {
		return nil
	}
	if err := s.Put(ctx, backend, principal, g); err != nil {
		return g
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsaved[k] == g {
		delete(s.unsaved, k)
	}
	return g
}

// waiting returns the unsaved grant of a key; nil when there is none.
func (s *Shared) waiting(k grantKey) *Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsaved[k]
}

// Put implements Keeper.
func (s *Shared) Put(ctx context.Context, backend, principal string, g *Grant) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	return s.rows.PutToken(ctx, backend, principal, text)
}

// Remove implements Keeper.
func (s *Shared) Remove(ctx context.Context, backend, principal string) (int, error) {
	s.forget(func(k grantKey) bool { return k == grantKey{backend, principal} })
	return s.rows.RemoveTokens(ctx, backend, &principal)
}

// RemoveAll implements Keeper.
func (s *Shared) RemoveAll(ctx context.Context, backend string) (int, error) {
	s.forget(func(k grantKey) bool { return k.backend == backend })
	return s.rows.RemoveTokens(ctx, backend, nil)
}

func (s *Shared) forget(which func(grantKey) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.unsaved {
		if which(k) {
			delete(s.unsaved, k)
		}
	}
}

// renew implements Keeper. The row is locked while f asks the authorization server. A grant
// that could not be written before takes the place of the row's.
func (s *Shared) renew(ctx context.Context, backend, principal string, f func(*Grant) (*Grant, error)) error {
	s.save(ctx, backend, principal)
	k := grantKey{backend, principal}
	var next *Grant
	var failed error
	_, err := s.rows.RenewToken(ctx, backend, principal, func(text []byte) ([]byte, error) {
		g, err := readGrant(text)
		if err != nil {
			return nil, err
		}
		if unsaved := s.waiting(k); unsaved != nil { // the refresh token of the row is used up
			g = unsaved
		}
		if next, failed = f(g); failed != nil || next == nil {
			return nil, failed
		}
		return json.Marshal(next)
	})
	switch {
	case failed != nil:
		return failed
	case err != nil && next != nil: // issued by the authorization server, but not written
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.unsaved) < maxUnsaved {
			s.unsaved[k] = next
		}
		return nil
	case err != nil:
		return unavailable("%w", err)
	case next != nil:
		s.forget(func(other grantKey) bool { return other == k })
	}
	return nil
}

func (s *Shared) remote() bool { return true }

func readGrant(text []byte) (*Grant, error) {
	if text == nil {
		return nil, nil
	}
	g := &Grant{}
	if err := json.Unmarshal(text, g); err != nil {
		return nil, fmt.Errorf("stored login: %w", err)
	}
	return g, nil
}
