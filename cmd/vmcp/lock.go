package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/drift"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/offers"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/usage"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/lock"
)

// lockFlags are the flags of the lock command.
type lockFlags struct {
	config, file   string
	check          bool
	only, backends []string
}

func (a *app) lock() *cobra.Command {
	var f lockFlags
	c := &cobra.Command{
		Use:   "lock [--only NAME...]",
		Short: "write down what the backends offer, or compare it with what was written",
		Long: `Lock starts the backends of a configuration and writes the definitions of their tools, prompts,
resources and templates, and their instructions, into vmcp.lock beside the configuration: a file for
Git, whose changes are what models will read differently. Serving holds the backends to it, as pins:
in the configuration and "vmcp serve --locked" say.

It prints what changed, and the lines of scripts that a change breaks. With --check it writes nothing, prints the old and the new text of what
differs, and exits with 1 if anything does. --only takes over single entries, which approves them:
backend.tool, prompt:backend.name, resource:backend.uri, template:backend.text, or a backend for its
instructions. --backend renews all of one backend. Both start only the backends that they name.

The exit code is 1 when a backend does not answer, and the file is as it was; it is 2 when the
file cannot be read, or is not there for --check.`,
		Example: "  vmcp lock\n  vmcp lock --check\n  vmcp lock --only shop.get_order prompt:shop.refund shop\n  vmcp lock --backend shop --lock staging.lock",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && len(f.only) == 0 {
				return fmt.Errorf("unknown argument %q: names follow --only", args[0])
			}
			return nil
		},
	}
	output := outputFlag(c)
	c.Flags().StringVar(&f.config, "config", defaultFile, "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	c.Flags().StringVar(&f.file, "lock", "", "the file to write or compare with (default pins.file of the configuration)")
	c.Flags().BoolVar(&f.check, "check", false, "write nothing, and exit with 1 if anything differs")
	c.Flags().StringArrayVar(&f.only, "only", nil, "take over this entry alone; more names may follow")
	c.Flags().StringArrayVar(&f.backends, "backend", nil, "take over what this backend offers; may be given again")
	c.RunE = func(c *cobra.Command, args []string) error {
		f.only = append(f.only, args...)
		return a.runLock(c.Context(), f, *output == "json")
	}
	return c
}

// selection is the part of a file that a command is about.
type selection struct {
	names    []lock.Name
	backends []string
}

func (s *selection) all() bool { return len(s.names)+len(s.backends) == 0 }

func (s *selection) has(n lock.Name) bool {
	return s.all() || slices.Contains(s.names, n) || slices.Contains(s.backends, n.Backend)
}

// needs reports whether a backend has to be asked.
func (s *selection) needs(backend string) bool {
	return s.all() || slices.Contains(s.backends, backend) ||
		slices.ContainsFunc(s.names, func(n lock.Name) bool { return n.Backend == backend })
}

func (f lockFlags) selection(cfg *config.Config) (*selection, error) {
	s := &selection{backends: f.backends}
	var names, asked []string
	for _, b := range cfg.Backends {
		names = append(names, b.Name)
	}
	for _, text := range f.only {
		n, err := lock.ParseName(text)
		if err != nil {
			return nil, usageError("--only: " + err.Error())
		}
		s.names, asked = append(s.names, n), append(asked, n.Backend)
	}
	for _, name := range append(asked, f.backends...) {
		if !slices.Contains(names, name) {
			return nil, usageError(fmt.Sprintf("no backend is named %q%s", name, spell.Hint(name, names)))
		}
	}
	return s, nil
}

func (a *app) runLock(ctx context.Context, f lockFlags, asJSON bool) error {
	cfg, err := a.load(f.config)
	if err != nil {
		return err
	}
	a.secrets.Use(cfg.Secrets())
	file := cmp.Or(f.file, diag.File(cfg.Pins.Path))
	s, err := f.selection(cfg)
	if err != nil {
		return err
	}
	old, err := readable(file, f.check)
	if err != nil {
		return err
	}
	now, err := a.gather(ctx, cfg, s)
	if err != nil {
		return err
	}
	done := locked{File: file, Changes: []lock.Change{}}
	before, after := old, old.Only(whole)
	if f.check {
		if err := s.known(old, now); err != nil {
			return err
		}
		done.Changes = append(done.Changes, lock.Compare(old.Only(s.has), now.Only(s.has))...)
		err = s.apply(after, now)
	} else {
		done.Written, err = lock.Update(file, func(old *lock.File) error {
			done.Changes = append(done.Changes, lock.Compare(old.Only(s.has), now.Only(s.has))...)
			before, after = old.Only(whole), old
			return s.apply(old, now)
		})
	}
	if err != nil {
		return err
	}
	done.Breaks = drift.Broken(cfg, before, after)
	return a.showLocked(done, f.check, f.check || len(s.names) > 0, asJSON)
}

func whole(lock.Name) bool { return true }

// readable reads the file before any backend is started for nothing.
func readable(file string, needed bool) (*lock.File, error) {
	f, err := lock.Read(file)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, fs.ErrNotExist) && !needed:
		return lock.New(), nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage.WithHint(usageError("there is no "+file), "vmcp lock writes it")
	}
	return nil, usageError(err.Error())
}

// gather asks the backends that a selection needs.
func (a *app) gather(ctx context.Context, cfg *config.Config, s *selection) (*lock.File, error) {
	part := *cfg
	part.Backends = slices.DeleteFunc(slices.Clone(cfg.Backends), func(b config.Backend) bool { return !s.needs(b.Name) })
	who := new(jsonscan.Object).Text("name", cmp.Or(cfg.Name, "vmcp")).Text("version", buildVersion()).JSON() // as serve does
	return offers.Gather(ctx, &part, offers.Options{Log: a.logger(slog.LevelError), Secrets: a.secrets, Client: who, Limit: settleTime})
}

// known reports a name that neither of two files has.
func (s *selection) known(old, now *lock.File) error {
	for _, n := range s.names {
		if !old.Holds(n) && !now.Holds(n) {
			var names []string
			for _, other := range slices.Concat(now.Names(), old.Names()) {
				names = append(names, other.String())
			}
			return usageError(fmt.Sprintf("--only: %q is neither offered nor in the file%s", n, spell.Hint(n.String(), names)))
		}
	}
	return nil
}

// apply takes over what is selected.
func (s *selection) apply(old, now *lock.File) error {
	if s.all() {
		*old = *now
		return nil
	}
	if err := s.known(old, now); err != nil {
		return err
	}
	for _, name := range s.backends {
		old.TakeBackend(now, name)
	}
	for _, n := range s.names {
		old.Take(now, n)
	}
	return nil
}

// locked is what came of it.
type locked struct {
	File    string        `json:"file"`
	Written bool          `json:"written"`
	Changes []lock.Change `json:"changes"`
	// Breaks are the lines of scripts that fitted the file as it was and do not fit the changes.
	Breaks diag.Problems `json:"breaks,omitempty"`
}

func (a *app) showLocked(done locked, check, texts, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(done); err != nil {
			return err
		}
	} else {
		for _, c := range done.Changes {
			if err := c.Print(a.out, texts); err != nil {
				return fmt.Errorf("write results: %w", err)
			}
		}
		if err := a.printProblems(done.Breaks, false); err != nil {
			return err
		}
	}
	switch {
	case check && len(done.Changes) > 0:
		return errReported
	case done.Written && !asJSON:
		a.say("%s: written, %s", done.File, client.Count(len(done.Changes), "change"))
	}
	return nil
}
