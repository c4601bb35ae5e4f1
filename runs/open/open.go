// Package open opens the store of runs that a configuration names in sessionStorage.
package open

import (
	"context"
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/durable"
	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/memory"
	"github.com/vmcp-dev/vmcp/runs/seal"
	"github.com/vmcp-dev/vmcp/runs/settings"
	"github.com/vmcp-dev/vmcp/runs/sqlstore"
)

// How are the options of the process that opens a store.
type How struct {
	// Beside opens a store that another process may serve at the same time, as the command vmcp runs does.
	Beside bool
	// Server is the server whose runs are kept there, where there are several, see [sqlstore.PostgresOptions].
	Server string
	// Wrote is called for every write to a journal, see [sqlstore.Options].
	Wrote func(took time.Duration, err error)
}

// Store opens the store that c.SessionStorage names. The ring has its keys, nil for memory: replacing
// them takes effect at once.
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
	case durable.StorageMemory, "":
		return memory.New(options.Options, nil), nil, nil
	case durable.StorageSQLite:
		store, err := sqlstore.OpenSQLite(ctx, sqlstore.SQLiteOptions{Options: options, Path: s.Path, Process: s.Sync == "process", Beside: how.Beside})
		if err != nil {
			return nil, nil, err
		}
		return store, store.Ring(), nil
	case durable.StoragePostgres:
		store, err := sqlstore.OpenPostgres(ctx, sqlstore.PostgresOptions{Options: options, URL: s.URL, Schema: s.Schema, MaxConnections: s.MaxConnections, Process: s.Sync == "process", Server: how.Server})
		if err != nil {
			return nil, nil, err
		}
		return store, store.Ring(), nil
	}
	return nil, nil, fmt.Errorf("sessionStorage.provider: runs cannot be kept in %q; want memory, sqlite or postgres", s.Provider)
}
