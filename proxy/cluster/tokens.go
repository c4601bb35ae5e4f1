package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/postgres"
	"github.com/vmcp-dev/vmcp/script/durable"
)

const (
	// maxTokens bounds the number of stored grants, and maxToken the size of one in bytes.
	maxTokens = 10_000
	maxToken  = 256 << 10
	// maxLocks bounds the connections that lock a row, or wait to, while a grant is renewed at an authorization server.
	maxLocks = 4
	// lockedFor is how long an idle transaction or a statement may keep a row locked, in milliseconds.
	lockedFor = 60_000
)

// Tokens stores the grants of logins at backends, sealed, for all replicas. A grant is an opaque text of package
// backends/credentials.
type Tokens struct {
	*store
	locks chan struct{} // one element for each connection that locks a row or waits to
}

// Tokens is the cluster's store of grants.
func (m *Members) Tokens() *Tokens { return m.tokens }

// OpenTokens opens the grants of a configuration without joining the cluster, whether or not replicas are running.
func OpenTokens(ctx context.Context, cfg *config.Config, ring *durable.Ring) (*Tokens, error) {
	db, err := postgres.Open(ctx, postgres.Options{URL: cfg.SessionStorage.URL, Schema: cfg.SessionStorage.Schema, MaxConnections: 2})
	if err != nil {
		return nil, err
	}
	s := &store{db: db, ring: ring, log: slog.New(slog.DiscardHandler)}
	if err := s.migrate(ctx); err != nil {
		db.Close()
		return nil, err
	}
	return newTokens(s), nil
}

func newTokens(s *store) *Tokens { return &Tokens{s, make(chan struct{}, maxLocks)} }

// Close closes the database. Only for a store that OpenTokens opened.
func (t *Tokens) Close() { t.db.Close() }

// Token reads the grant of a principal at a backend; nil if there is none.
func (t *Tokens) Token(ctx context.Context, backend, principal string) (text []byte, err error) {
	err = t.try(ctx, "read a login", func(ctx context.Context) error {
		var sealed []byte
		if err := t.db.QueryRow(ctx, t.sql(`SELECT sealed FROM @tokens WHERE backend = $1 AND principal = $2`), backend, principal).Scan(&sealed); err != nil {
			return err
		}
		text, err = t.openToken(backend, principal, sealed)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return text, err
}

// PutToken stores a grant.
func (t *Tokens) PutToken(ctx context.Context, backend, principal string, text []byte) error {
	if len(text) > maxToken {
		return fmt.Errorf("store a login: %d bytes: %w", len(text), ErrTooLarge)
	}
	sealed := t.sealToken(backend, principal, text)
	return t.try(ctx, "store a login", func(ctx context.Context) error {
		tag, err := t.db.Exec(ctx, t.sql(`INSERT INTO @tokens (backend, principal, sealed, key, updated) SELECT $1, $2, $3, $4, {now}
			WHERE (SELECT count(*) FROM @tokens) < $5 OR EXISTS (SELECT 1 FROM @tokens WHERE backend = $1 AND principal = $2)
			ON CONFLICT (backend, principal) DO UPDATE SET sealed = EXCLUDED.sealed, key = EXCLUDED.key, updated = EXCLUDED.updated`),
			backend, principal, sealed, durable.KeyOf(sealed), maxTokens)
		if err == nil && tag.RowsAffected() == 0 {
			return ours{fmt.Errorf("store a login: the store is full with %d logins; vmcp logout removes some", maxTokens)}
		}
		return err
	})
}

// RenewToken locks the row of a grant, calls f with the grant (nil if there is none) and stores what f returns; if that
// is nil, nothing changes. done reports whether f was called: at most once, and its effects are not undone.
func (t *Tokens) RenewToken(ctx context.Context, backend, principal string, f func([]byte) ([]byte, error)) (done bool, err error) {
	select {
	case t.locks <- struct{}{}:
		defer func() { <-t.locks }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	err = t.renewIn(ctx, backend, principal, &done, f)
	if err != nil && !done && !expected(err) && t.db.Died(err) && ctx.Err() == nil {
		err = t.renewIn(ctx, backend, principal, &done, f)
	}
	var own ours
	switch {
	case errors.As(err, &own):
		return done, own.error
	case err != nil:
		return done, fmt.Errorf("%w: %s: renew a login: %w", ErrUnavailable, t.db.Name, err)
	}
	return done, nil
}

// renewIn is one transaction of RenewToken.
func (t *Tokens) renewIn(ctx context.Context, backend, principal string, done *bool, f func([]byte) ([]byte, error)) error {
	return pgx.BeginFunc(ctx, t.db.Pool, func(tx pgx.Tx) error {
		// A row may stay locked for as long as an authorization server takes, but not by a process that was stopped.
		for _, set := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
			if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL %s = %d", set, lockedFor)); err != nil {
				return err
			}
		}
		var sealed, text []byte
		err := tx.QueryRow(ctx, t.sql(`SELECT sealed FROM @tokens WHERE backend = $1 AND principal = $2 FOR UPDATE`), backend, principal).Scan(&sealed)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if err == nil {
			if text, err = t.openToken(backend, principal, sealed); err != nil {
				return err
			}
		}
		*done = true
		next, err := f(text)
		if err != nil {
			return ours{err}
		}
		if next == nil {
			return nil
		}
		// The result of f is stored even if the caller has given up: f's effects are not undone.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		sealed = t.sealToken(backend, principal, next)
		_, err = tx.Exec(ctx, t.sql(`UPDATE @tokens SET sealed = $3, key = $4, updated = {now} WHERE backend = $1 AND principal = $2`), backend, principal, sealed, durable.KeyOf(sealed))
		return err
	})
}

// RemoveTokens deletes the grant of a principal at a backend, or those of all principals if principal is nil, and
// returns their number.
func (t *Tokens) RemoveTokens(ctx context.Context, backend string, principal *string) (n int, err error) {
	err = t.try(ctx, "remove logins", func(ctx context.Context) error {
		tag, err := t.db.Exec(ctx, t.sql(`DELETE FROM @tokens WHERE backend = $1 AND ($2::text IS NULL OR principal = $2)`), backend, principal)
		n += int(tag.RowsAffected())
		return err
	})
	return n, err
}

const (
	// maxLogin bounds the message about a pending login, in bytes.
	maxLogin = 64 << 10
)

// PostLogin stores a message about a pending login for the time life. The first message of an id is kept: first reports
// whether this is it.
func (t *Tokens) PostLogin(ctx context.Context, id string, text []byte, life time.Duration) (first bool, err error) {
	if len(text) > maxLogin {
		return false, fmt.Errorf("store a pending login: %d bytes: %w", len(text), ErrTooLarge)
	}
	sealed := t.ring.Encrypt(durable.Tokens, "logins|"+id, text)
	err = t.try(ctx, "store a pending login", func(ctx context.Context) error {
		var there []byte
		err := t.db.QueryRow(ctx, t.sql(`INSERT INTO @logins AS l (id, sealed, key, expires) VALUES ($1, $2, $3, {now} + $4)
			ON CONFLICT (id) DO UPDATE SET expires = l.expires RETURNING sealed`), id, sealed, durable.KeyOf(sealed), life.Microseconds()).Scan(&there)
		first = bytes.Equal(there, sealed)
		return err
	})
	return first, err
}

// Logins reads the messages about the pending logins ids. One that cannot be opened is left out.
func (t *Tokens) Logins(ctx context.Context, ids []string) (map[string][]byte, error) {
	found := map[string][]byte{}
	err := t.try(ctx, "read pending logins", func(ctx context.Context) error {
		rows, err := t.db.Query(ctx, t.sql(`SELECT id, sealed FROM @logins WHERE id = ANY($1) AND expires >= {now}`), ids)
		if err != nil {
			return err
		}
		var id string
		var sealed []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &sealed}, func() error {
			if text, err := t.ring.Open(durable.Tokens, "logins|"+id, sealed); err == nil {
				found[id] = text
			}
			return nil
		})
		return err
	})
	return found, err
}

// Sealed is how many sessions and grants are sealed with each key, by key id.
type Sealed struct{ Sessions, Logins map[string]int }

// Sealed counts the sessions and grants of each key.
func (t *Tokens) Sealed(ctx context.Context) (found Sealed, err error) {
	for _, count := range []struct {
		to   *map[string]int
		text string
	}{
		{&found.Sessions, `SELECT sealed, count(*) FROM @sessions WHERE sealed <> '' AND NOT deleted AND expires >= {now} GROUP BY sealed`},
		{&found.Logins, `SELECT key, count(*) FROM @tokens GROUP BY key`},
	} {
		err := t.try(ctx, "count keys", func(ctx context.Context) error {
			*count.to = map[string]int{}
			rows, err := t.db.Query(ctx, t.sql(count.text))
			if err != nil {
				return err
			}
			var id string
			var n int
			_, err = pgx.ForEachRow(rows, []any{&id, &n}, func() error {
				(*count.to)[id] = n
				return nil
			})
			return err
		})
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// whose is the context that a grant is sealed with: it does not open in another row.
func whose(backend, principal string) string { return fmt.Sprintf("tokens|%q|%q", backend, principal) }

func (t *Tokens) sealToken(backend, principal string, text []byte) []byte {
	return t.ring.Encrypt(durable.Tokens, whose(backend, principal), text)
}

func (t *Tokens) openToken(backend, principal string, sealed []byte) ([]byte, error) {
	text, err := t.ring.Open(durable.Tokens, whose(backend, principal), sealed)
	if err != nil {
		return nil, ours{fmt.Errorf("open the login at backend %s: %w", backend, err)}
	}
	return text, nil
}
