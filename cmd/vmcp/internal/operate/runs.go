package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// This part of the package is the command vmcp runs: it shows and changes the stored runs of scripted tools. It
// uses the store directly, beside a running server or without one; a server notices a change within a second.

// RunsEnv is what the command needs of the program that it is part of.
type RunsEnv struct {
	In          io.Reader
	Out         io.Writer
	Terminal    bool // a person can be asked
	DefaultFile string
	// Tell writes a message for people; Found is returned when the output or messages have said what is wrong.
	Tell  func(format string, args ...any)
	Found error
	// Load reads a configuration; JSON writes a result; Output adds --output to a command.
	Load   func(file string) (*config.Config, error)
	JSON   func(v any) error
	Output func(*cobra.Command) *string
	// Cell and Text escape text of others for one line and for several.
	Cell, Text func(string) string
}

// RunsCommand returns the command.
func RunsCommand(e RunsEnv) *cobra.Command {
	c := &cobra.Command{
		Use:   "runs",
		Short: "list, show and control the stored runs of scripted tools",
		Long: `Runs works with the runs in sessionStorage of a configuration, with or without a running server. A server
notices changes within a second, and continues the run.

A run is running, waiting (for an answer), sleeping, paused (its client disconnected), in doubt (the
outcome of a call is unknown), done, failed or cancelled. The last three are final.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	file := c.PersistentFlags().String("config", e.DefaultFile, "the configuration file")
	_ = c.MarkPersistentFlagFilename("config", "yaml", "yml") // the flag exists
	for _, sub := range []func(RunsEnv, *string) *cobra.Command{list, show, answer, resolve, resume, cancel, export, prune, keysInUse} {
		c.AddCommand(sub(e, file))
	}
	return c
}

// with calls f with the configuration and its open store.
func (e RunsEnv) with(ctx context.Context, file string, f func(*config.Config, durable.Store) error) (err error) {
	cfg, err := e.Load(file)
	if err != nil {
		return err
	}
	if !cfg.SessionStorage.Lasting() {
		return cli.WithHint(fmt.Errorf("%s: runs are stored in the memory of vmcp serve, which other processes cannot read", file), "set sessionStorage.provider to sqlite or postgres")
	}
	store, _, err := sqlstore.Open(ctx, cfg, sqlstore.How{Beside: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return f(cfg, store)
}

// state is the JSON of commands that change a run.
type state struct {
	ID    string        `json:"id"`
	State durable.State `json:"state"`
}

// change calls f with the store and prints the run's state.
func (e RunsEnv) change(ctx context.Context, file, id string, asJSON bool, f func(durable.Store) error) error {
	return e.with(ctx, file, func(_ *config.Config, s durable.Store) error {
		if err := f(s); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		r, _, err := s.Get(ctx, id)
		if err != nil {
			return err
		}
		if asJSON {
			return e.JSON(state{id, r.State})
		}
		_, err = fmt.Fprintf(e.Out, "%s %s\n", id, r.State)
		return err
	})
}

// ids completes the ids of runs in one of states.
func (e RunsEnv) ids(file *string, states ...durable.State) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		_ = e.with(c.Context(), *file, func(_ *config.Config, s durable.Store) error {
			list, _, err := s.List(c.Context(), durable.Filter{States: states, Limit: 50})
			for _, r := range list {
				if strings.HasPrefix(r.ID, prefix) {
					found = append(found, cobra.CompletionWithDesc(r.ID, string(r.State)+", "+r.Tool))
				}
			}
			return err
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// parseStates reads --state.
func parseStates(names []string) (states []durable.State, err error) {
	for _, n := range names {
		if !slices.Contains(durable.States, durable.State(n)) {
			return nil, cli.Error(fmt.Sprintf("--state: want %s, have %q", join(durable.States), n))
		}
		states = append(states, durable.State(n))
	}
	return states, nil
}

func join(states []durable.State) string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = string(s)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// ago parses a time: a duration before now, such as 7d, or RFC 3339. "" is the zero time.
func ago(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	var d limits.Duration
	if err := d.UnmarshalText([]byte(text)); err == nil {
		return time.Now().Add(-d.Std()), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, cli.Error(fmt.Sprintf("%s: want how long ago, such as 7d or 0s, or a time such as 2026-11-02T15:04:05Z; have %q", flag, text))
	}
	return t, nil
}

func completeStates(c *cobra.Command, states []durable.State) {
	var names []cobra.Completion
	for _, s := range states {
		names = append(names, string(s))
	}
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}
