package operate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// This part of the package changes all runs that a filter selects: --all of resolve and cancel.

// changed is the JSON of a command with --all.
type changed struct {
	Changed int         `json:"changed"`
	Failed  []unchanged `json:"failed"`
}

// unchanged is a run that could not be changed.
type unchanged struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// every has the flags of a command for all runs that are in some of the states allowed.
type every struct {
	RunsEnv
	on, yes         bool
	tool, principal string
	before          string
	states          []string
	allowed         []durable.State
	names           []string // of the flags that need --all
}

func (e RunsEnv) every(c *cobra.Command, file *string, allowed ...durable.State) *every {
	a := &every{RunsEnv: e, allowed: allowed, names: []string{"yes", "tool", "principal", "before"}}
	fl := c.Flags()
	fl.BoolVar(&a.on, "all", false, "all runs that the following flags select, after a question")
	fl.BoolVar(&a.yes, "yes", false, "with --all: without the question")
	fl.StringVar(&a.tool, "tool", "", "with --all: runs of this tool")
	fl.StringVar(&a.principal, "principal", "", "with --all: runs of this principal")
	fl.StringVar(&a.before, "before", "", "with --all: runs that were last changed before then: a duration such as 7d, or a time")
	if len(allowed) > 1 {
		fl.StringSliceVar(&a.states, "state", nil, "with --all: runs in one of these states")
		a.names = append(a.names, "state")
		completeStates(c, allowed)
	}
	for name, of := range map[string]func(durable.Summary) string{
		"tool":      func(r durable.Summary) string { return r.Tool },
		"principal": func(r durable.Summary) string { return r.Principal },
	} {
		_ = c.RegisterFlagCompletionFunc(name, a.values(file, of)) // the flag exists
	}
	one := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if a.on {
			return cobra.NoArgs(c, args)
		}
		for _, name := range a.names {
			if c.Flags().Changed(name) {
				return cli.Error("--" + name + ": only with --all")
			}
		}
		return one(c, args)
	}
	return a
}

// values completes the value of a flag with those that runs have.
func (a *every) values(file *string, of func(durable.Summary) string) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, prefix string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		_ = a.with(c.Context(), *file, func(_ *config.Config, s durable.Store) error {
			list, _, err := s.List(c.Context(), durable.Filter{States: a.allowed, Limit: atATime})
			for _, r := range list {
				if v := of(r); v != "" && strings.HasPrefix(v, prefix) && !slices.Contains(found, v) {
					found = append(found, v)
				}
			}
			return err
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// atATime is how many runs are listed at a time.
const atATime = 1000

// find lists the runs that the flags select.
func (a *every) find(ctx context.Context, s durable.Store, states []durable.State, before time.Time) (all []durable.Summary, err error) {
	f := durable.Filter{States: states, Tool: a.tool, Principal: a.principal, Limit: atATime}
	for {
		list, next, err := s.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if before.IsZero() || r.Updated.Before(before) {
				all = append(all, r)
			}
		}
		if f.After = next; next == "" {
			return all, nil
		}
	}
}

// change calls do for all runs, after the question what if there is no --yes.
func (a *every) change(ctx context.Context, file, what string, asJSON bool, do func(durable.Store, string) error) error {
	states, err := parseStates(a.states)
	if err != nil {
		return err
	}
	for _, s := range states {
		if !slices.Contains(a.allowed, s) {
			return cli.Error(fmt.Sprintf("--state: want %s, have %q", join(a.allowed), s))
		}
	}
	if states == nil {
		states = a.allowed
	}
	before, err := ago("--before", a.before)
	if err != nil {
		return err
	}
	if !a.yes && !a.Terminal {
		return cli.Error("--all: asks first, and there is no terminal to ask at: want --yes")
	}
	return a.with(ctx, file, func(_ *config.Config, s durable.Store) error {
		found, err := a.find(ctx, s, states, before)
		if err != nil {
			return err
		}
		if err := a.confirm(found, what); err != nil {
			return err
		}
		out := changed{Failed: []unchanged{}}
		for _, r := range found {
			switch err := do(s, r.ID); {
			case errors.Is(err, durable.ErrUnavailable):
				return fmt.Errorf("%d of %d runs are changed: %w", out.Changed, len(found), err)
			case err != nil:
				out.Failed = append(out.Failed, unchanged{r.ID, err.Error()})
			default:
				out.Changed++
			}
		}
		return a.show(out, asJSON)
	})
}

// errNotAgreed is returned when the person does not agree.
var errNotAgreed = errors.New("nothing is changed")

// confirm says how many runs of which tools are changed, and asks unless --yes is given.
func (a *every) confirm(found []durable.Summary, what string) error {
	if a.yes || len(found) == 0 {
		return nil
	}
	of := map[string]int{}
	for _, r := range found {
		of[r.Tool]++
	}
	var tools []string
	for _, tool := range slices.Sorted(maps.Keys(of)) {
		tools = append(tools, fmt.Sprintf("%d of %s", of[tool], a.Cell(tool)))
	}
	runs := "runs"
	if len(found) == 1 {
		runs = "run"
	}
	a.Tell("%d %s: %s", len(found), runs, strings.Join(tools, ", "))
	a.Tell("%s? [y/N]", what)
	answer, _ := bufio.NewReader(a.In).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errNotAgreed
	}
	return nil
}

// show prints how many runs were changed, and those that were not. Then the command has found problems.
func (a *every) show(out changed, asJSON bool) (err error) {
	if asJSON {
		err = a.JSON(out)
	} else {
		for _, f := range out.Failed {
			a.Tell("%s: %s", f.ID, f.Error)
		}
		_, err = fmt.Fprintf(a.Out, "changed %d\n", out.Changed)
	}
	if err == nil && len(out.Failed) > 0 {
		err = a.Found
	}
	return err
}
