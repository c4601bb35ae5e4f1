// Package open opens the store of runs that a configuration names.
package open

import (
	"context"
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/memory"
	"github.com/vmcp-dev/vmcp/runs/seal"
	"github.com/vmcp-dev/vmcp/runs/settings"
	"github.com/vmcp-dev/vmcp/runs/sqlstore"
)

// How says for what a store is opened.
type How struct {
	// Beside opens it beside the process that serves it, or without one, as vmcp runs does.
	Beside bool
	// Wrote is told of every write to a journal, see [sqlstore.Options].
	Wrote func(took time.Duration, err error)
}

// Store opens what c.SessionStorage names. The ring is that of its keys, nil for memory: keys that
// are replaced in it count at once.
func Store(ctx context.Context, c *config.Config, how How) (runs.Store, *seal.Ring, error) {
	s := c.SessionStorage
	options := sqlstore.Options{Options: settings.Options(c), Encrypt: s.Encrypt != nil && *s.Encrypt, Wrote: how.Wrote}
	if len(s.Keys) > 0 {
		ring, err := seal.New(settings.Keys(c))
		if err != nil {
			return nil, nil, err
		}
		options.Ring = ring
	}
	switch s.Provider {
	case config.StorageMemory, "":
		return memory.New(options.Options, nil), nil, nil
	case config.StorageSQLite:
		store, err := sqlstore.OpenSQLite(ctx, sqlstore.SQLiteOptions{Options: options, Path: s.Path, Process: s.Sync == "process", Beside: how.Beside})
		if err != nil {
			return nil, nil, err
		}
		return store, store.Ring(), nil
	case config.StoragePostgres:
		store, err := sqlstore.OpenPostgres(ctx, sqlstore.PostgresOptions{Options: options, URL: s.URL, Schema: s.Schema, MaxConnections: s.MaxConnections, Process: s.Sync == "process"})
		if err != nil {
			return nil, nil, err
		}
		return store, store.Ring(), nil
	}
	return nil, nil, fmt.Errorf("sessionStorage.provider: %q keeps no runs", s.Provider)
}
