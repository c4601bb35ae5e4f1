package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/vmcp-dev/vmcp/internal/postgres"
	"github.com/vmcp-dev/vmcp/runs/seal"
)

// store is the schema that replicas share.
type store struct {
	db    *postgres.DB
	ring  *seal.Ring
	log   *slog.Logger
	texts sync.Map // statements as written -> for this schema
}

// sql is a statement of this package for the schema: @ stands in front of the names of tables, {now} for the time.
func (s *store) sql(text string) string {
	if t, ok := s.texts.Load(text); ok {
		return t.(string)
	}
	t := strings.NewReplacer("@", `"`+s.db.Schema+`".`, "{now}", "(extract(epoch from clock_timestamp()) * 1000000)::bigint").Replace(text)
	s.texts.Store(text, t)
	return t
}

// migrate brings the tables to what this program knows, unless a newer one has been there that says that this
// one can use them.
func (s *store) migrate(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, s.db.Pool, func(t pgx.Tx) error {
		if err := s.db.Prepare(ctx, t); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, s.sql(`CREATE TABLE IF NOT EXISTS @meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)`)); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, s.sql(`INSERT INTO @meta (name, value) VALUES ('cluster', 0), ('cluster_compatible', 0) ON CONFLICT (name) DO NOTHING`)); err != nil {
			return err
		}
		var version, since int
		if err := t.QueryRow(ctx, s.sql(`SELECT a.value, b.value FROM @meta a, @meta b WHERE a.name = 'cluster' AND b.name = 'cluster_compatible'`)).Scan(&version, &since); err != nil {
			return err
		}
		switch {
		case since > len(migrations):
			return fmt.Errorf("the schema %s has tables of version %d for replicas, which is newer than this program: it knows version %d", s.db.Schema, version, len(migrations))
		case version >= len(migrations):
			return nil
		}
		for _, step := range migrations[version:] {
			if _, err := t.Exec(ctx, s.sql(step)); err != nil {
				return err
			}
		}
		_, err := t.Exec(ctx, s.sql(`UPDATE @meta SET value = CASE name WHEN 'cluster' THEN $1::bigint ELSE $2::bigint END WHERE name IN ('cluster', 'cluster_compatible')`), len(migrations), compatible)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, s.db.Name, err)
	}
	return nil
}

// try runs one statement, and once more over a fresh connection where the first has died: all statements of this
// package may be run twice. The error wraps ErrUnavailable, unless it is one of ours.
func (s *store) try(ctx context.Context, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := do(ctx)
	if !expected(err) && postgres.Died(err) && ctx.Err() == nil {
		err = do(ctx)
	}
	var own ours
	switch {
	case errors.As(err, &own):
		return own.error
	case expected(err):
		return err
	}
	return fmt.Errorf("%w: %s: %s: %w", ErrUnavailable, s.db.Name, what, err)
}

// ours is an error that is not the database's.
type ours struct{ error }

func (e ours) Unwrap() error { return e.error }

// expected reports whether an error is an answer, or none.
func expected(err error) bool {
	var own ours
	return err == nil || errors.Is(err, pgx.ErrNoRows) || errors.As(err, &own)
}
