package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/cluster"

	durablepkg "github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// ownKey is the id of the key in the file that is made beside an SQLite store.
const ownKey = "file"

// inUse is the JSON of a key.
type inUse struct {
	ID         string `json:"id"`
	Configured bool   `json:"configured"`
	Seals      bool   `json:"seals"`
	Runs       int    `json:"runs"`
	Sessions   int    `json:"sessions"`
	Logins     int    `json:"logins"`
}

// keys is the JSON of the command.
type keys struct {
	Keys []inUse `json:"keys"`
}

func keysInUse(e RunsEnv, file *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "list the keys of sessionStorage, and how much is encrypted with each",
		Long: `Keys counts, for each key of sessionStorage.keys and each other key that something in the store is encrypted
with, the runs, the sessions and the logins at backends. The first configured key encrypts. An old key
can be removed when nothing is encrypted with it and sessions that were begun with it have
ended, which is 24 hours after another key became the first.` + cli.Of(keys{}),
		Example: "  vmcp runs keys\n  vmcp runs list --sealed-by 2026-05",
		Args:    cobra.NoArgs,
	}
	output := e.Output(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return e.with(c.Context(), *file, func(cfg *config.Config, s durablepkg.Store) error {
			found, err := countKeys(c.Context(), cfg, s)
			if err != nil {
				return err
			}
			if *output == "json" {
				return e.JSON(keys{found})
			}
			return e.showKeys(found)
		})
	}
	return c
}

// countKeys counts what each key seals: configured ones first, in their order.
func countKeys(ctx context.Context, cfg *config.Config, s durablepkg.Store) ([]inUse, error) {
	kept, err := s.Sealed(ctx)
	if err != nil {
		return nil, err
	}
	var shared cluster.Sealed
	if cfg.Cluster.On() {
		ring, err := durablepkg.NewSeal(sqlstore.Keys(cfg))
		if err != nil {
			return nil, err
		}
		tokens, err := cluster.OpenTokens(ctx, cfg, ring)
		if err != nil {
			return nil, err
		}
		defer tokens.Close()
		if shared, err = tokens.Sealed(ctx); err != nil {
			return nil, err
		}
	}
	found := []inUse{}
	add := func(id string, configured, seals bool) {
		found = append(found, inUse{id, configured, seals, kept[id], shared.Sessions[id], shared.Logins[id]})
		delete(kept, id)
		delete(shared.Sessions, id)
		delete(shared.Logins, id)
	}
	for i, k := range cfg.SessionStorage.Keys {
		add(k.ID, true, i == 0)
	}
	if cfg.SessionStorage.Provider == config.StorageSQLite && len(cfg.SessionStorage.Keys) == 0 {
		add(ownKey, true, true)
	}
	rest := map[string]bool{}
	for _, counts := range []map[string]int{kept, shared.Sessions, shared.Logins} {
		for id := range counts {
			rest[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rest)) {
		add(id, false, false)
	}
	return found, nil
}

func (e RunsEnv) showKeys(found []inUse) error {
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tRUNS\tSESSIONS\tLOGINS\tABOUT")
	for _, k := range found {
		about := "opens"
		switch {
		case k.Seals:
			about = "seals"
		case !k.Configured:
			about = "not configured"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", e.Cell(k.ID), k.Runs, k.Sessions, k.Logins, about)
	}
	return w.Flush()
}
