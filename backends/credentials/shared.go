package credentials

import (
	"context"
	"encoding/json"
	"fmt"

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
	stored, err := s.stored(backend, principal)
	if err != nil {
		return unavailable("%w", err)
	}
	k, g := grantKey{backend, principal}, stored
	if unsaved := s.unsaved.inPlaceOf(k, stored); unsaved != nil { // the refresh token of the file is used up
		g = unsaved
	}
	next, err := f(g)
	if err != nil || next == nil {
		return err
	}
	if err := s.Put(ctx, backend, principal, next); err != nil { // issued by the authorization server, but not written
		s.unsaved.keep(k, next, stored)
		return nil
	}
	s.unsaved.forget(k)
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

// Shared keeps grants in rows. A renewed grant that could not be written is kept in memory until it can.
type Shared struct {
	rows    Rows
	unsaved unsaved
}

// Share returns a keeper over rows.
func Share(rows Rows) *Shared { return &Shared{rows: rows} }

// Find implements Keeper.
func (s *Shared) Find(ctx context.Context, backend, principal string) (*Grant, error) {
	k := grantKey{backend, principal}
	text, err := s.rows.Token(ctx, backend, principal)
	if err != nil {
		if g := s.unsaved.waiting(k); g != nil {
			return g, nil
		}
		return nil, err
	}
	stored, err := readGrant(text)
	if err != nil || s.unsaved.inPlaceOf(k, stored) == nil {
		return stored, err
	}
	return s.save(ctx, k, stored)
}

// save writes the unsaved grant that replaces stored, and returns what holds then: that grant, also if it cannot be
// written, or what another replica has stored.
func (s *Shared) save(ctx context.Context, k grantKey, stored *Grant) (*Grant, error) {
	g := s.unsaved.inPlaceOf(k, stored)
	_, err := s.rows.RenewToken(ctx, k.backend, k.principal, func(text []byte) ([]byte, error) {
		now, err := readGrant(text)
		if err != nil {
			return nil, err
		}
		if next := s.unsaved.inPlaceOf(k, now); next != nil {
			g = next
			return json.Marshal(next)
		}
		g = now
		return nil, nil
	})
	if err == nil {
		s.unsaved.forget(k)
	}
	return g, nil
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
	return s.rows.RemoveTokens(ctx, backend, &principal)
}

// RemoveAll implements Keeper.
func (s *Shared) RemoveAll(ctx context.Context, backend string) (int, error) {
	return s.rows.RemoveTokens(ctx, backend, nil)
}

// renew implements Keeper. The row is locked while f asks the authorization server.
func (s *Shared) renew(ctx context.Context, backend, principal string, f func(*Grant) (*Grant, error)) error {
	k := grantKey{backend, principal}
	var stored, next *Grant
	var failed error
	_, err := s.rows.RenewToken(ctx, backend, principal, func(text []byte) ([]byte, error) {
		var err error
		if stored, err = readGrant(text); err != nil {
			return nil, err
		}
		g := stored
		if unsaved := s.unsaved.inPlaceOf(k, stored); unsaved != nil { // the refresh token of the row is used up
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
		s.unsaved.keep(k, next, stored)
		return nil
	case err != nil:
		return unavailable("%w", err)
	case next != nil:
		s.unsaved.forget(k)
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
