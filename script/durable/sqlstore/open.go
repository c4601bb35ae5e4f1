package sqlstore

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/vmcp-dev/vmcp/config"

	durablepkg "github.com/vmcp-dev/vmcp/script/durable"
)

// This part of the package opens the store of runs that a configuration names in sessionStorage.

// How are the options of the process that opens a store.
type How struct {
	// Beside opens a store that another process may serve at the same time, as the command vmcp runs does.
	Beside bool
	// Server is the server whose runs are kept there, where there are several, see [sqlstore.PostgresOptions].
	Server string
	// Log, see [sqlstore.Options].
	Log *slog.Logger
	// Wrote is called for every write to a journal, see [sqlstore.Options].
	Wrote func(took time.Duration, err error)
}

// Open opens the store that c.SessionStorage names. The ring has its keys, nil for memory: replacing
// them takes effect at once.
func Open(ctx context.Context, c *config.Config, how How) (durablepkg.Store, *durablepkg.Ring, error) {
	s := c.SessionStorage
	options := Options{Options: settingsOptions(c), Encrypt: s.Encrypt != nil && *s.Encrypt, Log: how.Log, Wrote: how.Wrote}
	if len(s.Keys) > 0 {
		ring, err := durablepkg.NewSeal(Keys(c))
		if err != nil {
			return nil, nil, err
		}
		options.Ring = ring
	}
	switch s.Provider {
	case config.StorageMemory, "":
		return durablepkg.NewMemory(options.Options, nil), nil, nil
	case config.StorageSQLite:
		store, err := OpenSQLite(ctx, SQLiteOptions{Options: options, Path: s.Path, Process: s.Sync == "process", Beside: how.Beside})
		if err != nil {
			return nil, nil, err
		}
		return store, store.Ring(), nil
	case config.StoragePostgres:
		store, err := OpenPostgres(ctx, PostgresOptions{Options: options, URL: s.URL, Schema: s.Schema, MaxConnections: s.MaxConnections, Process: s.Sync == "process", Server: how.Server})
		if err != nil {
			return nil, nil, err
		}
		return store, store.Ring(), nil
	}
	return nil, nil, fmt.Errorf("sessionStorage.provider: runs cannot be kept in %q; want memory, sqlite or postgres", s.Provider)
}
