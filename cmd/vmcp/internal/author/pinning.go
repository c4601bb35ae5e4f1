package author

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// This part of the package is the command vmcp lock: it writes what backends offer to vmcp.lock, or compares the two.

// LockEnv is what the command needs of the program that it is part of.
type LockEnv struct {
	Out         io.Writer
	DefaultFile string
	// Load reads a configuration; Gather connects to its backends and returns what they offer.
	Load   func(file string) (*config.Config, error)
	Gather func(ctx context.Context, cfg *config.Config) (*lock.File, error)
	// Say writes a message for a person; JSON a result; Problems problems; Output adds --output to a command.
	Say      func(format string, args ...any)
	JSON     func(v any) error
	Problems func(diag.Problems) error
	Output   func(*cobra.Command) *string
	// Reported is returned when problems have been reported already: exit code 1.
	Reported error
}

// lockFlags are the flags of the command.
type lockFlags struct {
	config, file   string
	check          bool
	only, backends []string
}

// LockCommand returns the command.
func LockCommand(e LockEnv) *cobra.Command {
	var f lockFlags
	c := &cobra.Command{
		Use:   "lock [--only NAME...]",
		Short: "write the definitions of the backends to vmcp.lock, or compare them with it",
		Long: `Lock starts the backends of a configuration and writes the definitions of their tools, prompts,
resources and templates, and their instructions, into vmcp.lock beside the configuration: a file for
Git, whose changes are changes of what models read. The server compares the backends with it, as set by pins:
in the configuration and by "vmcp serve --locked".

It prints the changes, and the lines of scripts that they break. With --check it writes nothing, prints the old and the new text of each
difference, and exits with 1 if there are any. --only updates single entries, which approves them:
backend.tool, prompt:backend.name, resource:backend.uri, template:backend.text, or a backend for its
instructions. --backend renews all of one backend. Both start only the backends that they name.

The exit code is 1 if a backend does not respond; the file is then unchanged. It is 2 if the
file cannot be read, or does not exist with --check.` + cli.Of(locked{}),
		Example: "  vmcp lock\n  vmcp lock --check\n  vmcp lock --only shop.get_order prompt:shop.refund shop\n  vmcp lock --backend shop --lock staging.lock",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && len(f.only) == 0 {
				return fmt.Errorf("unknown argument %q: names follow --only", args[0])
			}
			return nil
		},
	}
	output := e.Output(c)
	c.Flags().StringVar(&f.config, "config", e.DefaultFile, "the configuration file")
	_ = c.MarkFlagFilename("config", "yaml", "yml") // the flag exists
	c.Flags().StringVar(&f.file, "lock", "", "the file to write or compare with (default pins.file of the configuration)")
	c.Flags().BoolVar(&f.check, "check", false, "write nothing, and exit with 1 if anything differs")
	c.Flags().StringArrayVar(&f.only, "only", nil, "update this entry only; more names may follow")
	c.Flags().StringArrayVar(&f.backends, "backend", nil, "update the entries of this backend; repeatable")
	c.RunE = func(c *cobra.Command, args []string) error {
		f.only = append(f.only, args...)
		return e.run(c.Context(), f, *output == "json")
	}
	return c
}

// selection is the part of a lock that the command updates or checks.
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
			return nil, cli.Error("--only: " + err.Error())
		}
		s.names, asked = append(s.names, n), append(asked, n.Backend)
	}
	for _, name := range append(asked, f.backends...) {
		if !slices.Contains(names, name) {
			return nil, cli.Error(fmt.Sprintf("no backend is named %q%s", name, display.Hint(name, names)))
		}
	}
	return s, nil
}

func (e LockEnv) run(ctx context.Context, f lockFlags, asJSON bool) error {
	cfg, err := e.Load(f.config)
	if err != nil {
		return err
	}
	file := cmp.Or(f.file, diag.File(cfg.Pins.Path))
	s, err := f.selection(cfg)
	if err != nil {
		return err
	}
	old, err := readable(file, f.check)
	if err != nil {
		return err
	}
	now, err := e.gather(ctx, cfg, s)
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
	done.Breaks = broken(cfg, before, after)
	return e.show(done, f.check, f.check || len(s.names) > 0, asJSON)
}

func whole(lock.Name) bool { return true }

// readable reads the lock before backends are started, so that an error in it is found at once.
func readable(file string, needed bool) (*lock.File, error) {
	f, err := lock.Read(file)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, fs.ErrNotExist) && !needed:
		return lock.New(), nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.WithHint(cli.Error("there is no "+file), "vmcp lock writes it")
	}
	return nil, cli.Error(err.Error())
}

// gather asks the backends of a selection.
func (e LockEnv) gather(ctx context.Context, cfg *config.Config, s *selection) (*lock.File, error) {
	part := *cfg
	part.Backends = slices.DeleteFunc(slices.Clone(cfg.Backends), func(b config.Backend) bool { return !s.needs(b.Name) })
	return e.Gather(ctx, &part)
}

// known returns an error for a name that is in neither of two locks.
func (s *selection) known(old, now *lock.File) error {
	for _, n := range s.names {
		if !old.Holds(n) && !now.Holds(n) {
			var names []string
			for _, other := range slices.Concat(now.Names(), old.Names()) {
				names = append(names, other.String())
			}
			return cli.Error(fmt.Sprintf("--only: %q is neither offered nor in the file%s", n, display.Hint(n.String(), names)))
		}
	}
	return nil
}

// apply copies the selected entries of now into old.
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

// locked is the JSON of the command.
type locked struct {
	File    string        `json:"file"`
	Written bool          `json:"written"`
	Changes []lock.Change `json:"changes"`
	// Breaks are the lines of scripts that agree with the old lock and not with the new one.
	Breaks diag.Problems `json:"breaks,omitempty"`
}

func (e LockEnv) show(done locked, check, texts, asJSON bool) error {
	if asJSON {
		if err := e.JSON(done); err != nil {
			return err
		}
	} else {
		for _, c := range done.Changes {
			if err := c.Print(e.Out, texts); err != nil {
				return fmt.Errorf("write results: %w", err)
			}
		}
		if err := e.Problems(done.Breaks); err != nil {
			return err
		}
	}
	switch {
	case check && len(done.Changes) > 0:
		return e.Reported
	case done.Written && !asJSON:
		e.Say("%s: written, %s", done.File, client.Count(len(done.Changes), "change"))
	}
	return nil
}
