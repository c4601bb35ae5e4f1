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
	"github.com/vmcp-dev/vmcp/script/durable"
)

// store is the schema that the replicas of a cluster share.
type store struct {
	db    *postgres.DB
	ring  *durable.Ring
	log   *slog.Logger
	texts sync.Map // statement with placeholders -> statement for this schema
}

// sql expands a statement for the schema: @ is the prefix of table names, {now} the time of the database in
// microseconds.
func (s *store) sql(text string) string {
	if t, ok := s.texts.Load(text); ok {
		return t.(string)
	}
	t := strings.NewReplacer("@", `"`+s.db.Schema+`".`, "{now}", "(extract(epoch from clock_timestamp()) * 1000000)::bigint").Replace(text)
	s.texts.Store(text, t)
	return t
}

// migrate brings the tables to the version of this program. Tables of a newer version are left as they are if their
// cluster_compatible says that this program can use them, and refused otherwise.
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
			return fmt.Errorf("the cluster tables of schema %s need a program for version %d; this one supports version %d", s.db.Schema, version, len(migrations))
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

// try runs do within a time limit, and once more over a fresh connection if the first one had died: all statements of
// this package may be run twice. The error wraps ErrUnavailable unless it is an expected one.
func (s *store) try(ctx context.Context, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := do(ctx)
	if !expected(err) && s.db.Died(err) && ctx.Err() == nil {
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

// ours is an error of this package that try returns unwrapped, rather than as ErrUnavailable.
type ours struct{ error }

func (e ours) Unwrap() error { return e.error }

// expected reports whether err is nil, "no rows" or an error of this package.
func expected(err error) bool {
	var own ours
	return err == nil || errors.Is(err, pgx.ErrNoRows) || errors.As(err, &own)
}
