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
	// Find returns the grant of a principal with a backend, nil when there is none.
	Find(ctx context.Context, backend, principal string) (*Grant, error)
	// Put keeps a grant in the place of one that is there. It is kept when Put returns.
	Put(ctx context.Context, backend, principal string, g *Grant) error
	// Remove takes out the grants of a principal with a backend and reports how many there were, RemoveAll those of all.
	Remove(ctx context.Context, backend, principal string) (int, error)
	RemoveAll(ctx context.Context, backend string) (int, error)

	// renew calls f with a grant, nil for none, while nobody else renews it, here or in another process, and keeps what
	// f returns in its place; nil: nothing changes. f is called once at most. Its error comes back as it is.
	renew(ctx context.Context, backend, principal string, f func(*Grant) (*Grant, error)) error
	// remote reports whether Find may take long: nothing that has a token waits for it.
	remote() bool
}

// renew implements Keeper: a file beside the store is locked for each grant.
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
	// Token is a text; nil for none.
	Token(ctx context.Context, backend, principal string) ([]byte, error)
	PutToken(ctx context.Context, backend, principal string, text []byte) error
	// RenewToken calls f with a text while nobody else does, and keeps what f returns; nil: nothing changes.
	// done reports whether f was called.
	RenewToken(ctx context.Context, backend, principal string, f func([]byte) ([]byte, error)) (done bool, err error)
	// RemoveTokens takes out that of a principal, nil for those of all.
	RemoveTokens(ctx context.Context, backend string, principal *string) (int, error)
}

// Shared keeps grants in rows. A grant that was renewed and that the rows could not take is kept here until they do: a
// refresh token that was rotated is the only one that is good.
type Shared struct {
	rows Rows

	mu      sync.Mutex
	unsaved map[grantKey]*Grant // guarded by mu
}

type grantKey struct{ backend, principal string }

// maxUnsaved bounds the grants that wait for the rows.
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

// save writes the grant that waits for the rows, and returns it while it does.
func (s *Shared) save(ctx context.Context, backend, principal string) *Grant {
	k := grantKey{backend, principal}
	s.mu.Lock()
	g := s.unsaved[k]
	s.mu.Unlock()
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

// renew implements Keeper. The row is locked while f asks the authorization server.
func (s *Shared) renew(ctx context.Context, backend, principal string, f func(*Grant) (*Grant, error)) error {
	s.save(ctx, backend, principal)
	var next *Grant
	var failed error
	_, err := s.rows.RenewToken(ctx, backend, principal, func(text []byte) ([]byte, error) {
		g, err := readGrant(text)
		if err != nil {
			return nil, err
		}
		if next, failed = f(g); failed != nil || next == nil {
			return nil, failed
		}
		return json.Marshal(next)
	})
	switch {
	case failed != nil:
		return failed
	case err != nil && next != nil: // the authorization server has given it, and the rows have not taken it
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.unsaved) < maxUnsaved {
			s.unsaved[grantKey{backend, principal}] = next
		}
		return nil
	case err != nil:
		return unavailable("%w", err)
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
		return nil, fmt.Errorf("a stored login: %w", err)
	}
	return g, nil
}
