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
	"github.com/vmcp-dev/vmcp/runs/seal"
)

const (
	// maxTokens bounds the logins that are kept, and maxToken the size of one.
	maxTokens = 10_000
	maxToken  = 256 << 10
	// maxLocks bounds the connections that wait for a row, or have it locked, while an authorization server is asked.
	maxLocks = 4
	// lockedFor is how long a row may be locked by a process that does nothing, in milliseconds.
	lockedFor = 60_000
)

// Tokens keep what logins at backends gave, sealed, for all replicas.
type Tokens struct {
	*store
	locks chan struct{} // a token for each connection that has locked a row, or waits for it
}

// Tokens are those of the cluster.
func (m *Members) Tokens() *Tokens { return m.tokens }

// OpenTokens opens the tokens of a configuration beside the processes that serve, or without them.
func OpenTokens(ctx context.Context, cfg *config.Config, ring *seal.Ring) (*Tokens, error) {
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

// Close closes the database. It is for what OpenTokens has opened.
func (t *Tokens) Close() { t.db.Close() }

// Token is the text of a principal with a backend; nil for none.
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

// PutToken keeps a text.
func (t *Tokens) PutToken(ctx context.Context, backend, principal string, text []byte) error {
	if len(text) > maxToken {
		return fmt.Errorf("a login with %d bytes: %w", len(text), ErrTooLarge)
	}
	sealed := t.sealToken(backend, principal, text)
	return t.try(ctx, "keep a login", func(ctx context.Context) error {
		tag, err := t.db.Exec(ctx, t.sql(`INSERT INTO @tokens (backend, principal, sealed, key, updated) SELECT $1, $2, $3, $4, {now}
			WHERE (SELECT count(*) FROM @tokens) < $5 OR EXISTS (SELECT 1 FROM @tokens WHERE backend = $1 AND principal = $2)
			ON CONFLICT (backend, principal) DO UPDATE SET sealed = EXCLUDED.sealed, key = EXCLUDED.key, updated = EXCLUDED.updated`),
			backend, principal, sealed, seal.KeyOf(sealed), maxTokens)
		if err == nil && tag.RowsAffected() == 0 {
			return ours{fmt.Errorf("%d logins are stored, and no more are taken; vmcp logout makes room", maxTokens)}
		}
		return err
	})
}

// RenewToken calls f with a text, nil for none, while its row is locked, and keeps what f returns; nil: nothing changes.
// done reports whether f was called: it is called once at most, and what it did cannot be undone.
func (t *Tokens) RenewToken(ctx context.Context, backend, principal string, f func([]byte) ([]byte, error)) (done bool, err error) {
	select {
	case t.locks <- struct{}{}:
		defer func() { <-t.locks }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	err = t.renewIn(ctx, backend, principal, &done, f)
	if err != nil && !done && !expected(err) && postgres.Died(err) && ctx.Err() == nil {
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
		// A row may be locked for as long as an authorization server takes, and no longer by a process that has stopped.
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
		// What f did is not undone when whoever asked leaves.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		sealed = t.sealToken(backend, principal, next)
		_, err = tx.Exec(ctx, t.sql(`UPDATE @tokens SET sealed = $3, key = $4, updated = {now} WHERE backend = $1 AND principal = $2`), backend, principal, sealed, seal.KeyOf(sealed))
		return err
	})
}

// RemoveTokens takes out that of a principal with a backend, nil for those of all, and reports how many there were.
func (t *Tokens) RemoveTokens(ctx context.Context, backend string, principal *string) (n int, err error) {
	err = t.try(ctx, "forget a login", func(ctx context.Context) error {
		tag, err := t.db.Exec(ctx, t.sql(`DELETE FROM @tokens WHERE backend = $1 AND ($2::text IS NULL OR principal = $2)`), backend, principal)
		n += int(tag.RowsAffected())
		return err
	})
	return n, err
}

const (
	// maxLogin bounds a text about a login that is under way.
	maxLogin = 64 << 10
)

// PostLogin leaves a text about a login that is under way, for some time. The first of an id stays: first reports
// whether this is it.
func (t *Tokens) PostLogin(ctx context.Context, id string, text []byte, life time.Duration) (first bool, err error) {
	if len(text) > maxLogin {
		return false, fmt.Errorf("a login under way with %d bytes: %w", len(text), ErrTooLarge)
	}
	sealed := t.ring.Encrypt(seal.Tokens, "logins|"+id, text)
	err = t.try(ctx, "leave word of a login", func(ctx context.Context) error {
		var there []byte
		err := t.db.QueryRow(ctx, t.sql(`INSERT INTO @logins AS l (id, sealed, key, expires) VALUES ($1, $2, $3, {now} + $4)
			ON CONFLICT (id) DO UPDATE SET expires = l.expires RETURNING sealed`), id, sealed, seal.KeyOf(sealed), life.Microseconds()).Scan(&there)
		first = bytes.Equal(there, sealed)
		return err
	})
	return first, err
}

// Logins reads the texts about logins that are there. One that does not open is not.
func (t *Tokens) Logins(ctx context.Context, ids []string) (map[string][]byte, error) {
	found := map[string][]byte{}
	err := t.try(ctx, "look for word of logins", func(ctx context.Context) error {
		rows, err := t.db.Query(ctx, t.sql(`SELECT id, sealed FROM @logins WHERE id = ANY($1) AND expires >= {now}`), ids)
		if err != nil {
			return err
		}
		var id string
		var sealed []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &sealed}, func() error {
			if text, err := t.ring.Open(seal.Tokens, "logins|"+id, sealed); err == nil {
				found[id] = text
			}
			return nil
		})
		return err
	})
	return found, err
}

// Sealed is how much is sealed by each key, by its id.
type Sealed struct{ Sessions, Logins map[string]int }

// Sealed counts what is sealed by which key.
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

// whose is what a text is sealed for: it does not open in another's place.
func whose(backend, principal string) string { return fmt.Sprintf("tokens|%q|%q", backend, principal) }

func (t *Tokens) sealToken(backend, principal string, text []byte) []byte {
	return t.ring.Encrypt(seal.Tokens, whose(backend, principal), text)
}

func (t *Tokens) openToken(backend, principal string, sealed []byte) ([]byte, error) {
	text, err := t.ring.Open(seal.Tokens, whose(backend, principal), sealed)
	if err != nil {
		return nil, ours{fmt.Errorf("the login at backend %s: %w", backend, err)}
	}
	return text, nil
}
