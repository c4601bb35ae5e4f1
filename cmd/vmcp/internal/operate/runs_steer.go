package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/script/durable"
)

func answer(e RunsEnv, file *string) *cobra.Command {
	var action, content string
	c := &cobra.Command{
		Use:   "answer ID [KEY]",
		Short: "answer a question that a run waits for",
		Long: `Answer answers an open question, as listed by show. KEY may be omitted if only one question is
open. The content of an accepted question must be valid for the schema of the question. The first answer
counts, from any source.` + cli.Of(state{}),
		Example: "  vmcp runs answer 4qk2v9m0s7c1d8x3n5b6t0h2ya 1 --action accept --content '{\"ship\": true}'\n  vmcp runs answer 4qk2v9m0s7c1d8x3n5b6t0h2ya --action decline",
		Args:    cobra.RangeArgs(1, 2),
	}
	c.ValidArgsFunction = e.ids(file, durable.Waiting, durable.Doubt, durable.Running)
	output := e.Output(c)
	c.Flags().StringVar(&action, "action", "", "accept, decline or cancel")
	c.Flags().StringVar(&content, "content", "", "the content of an accepted question, a JSON object")
	_ = c.RegisterFlagCompletionFunc("action", cobra.FixedCompletions([]string{"accept", "decline", "cancel"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	c.RunE = func(c *cobra.Command, args []string) error {
		said := durable.Answer{Action: action}
		if content != "" {
			said.Content = json.RawMessage(content)
		}
		if len(args) == 2 {
			said.Key = args[1]
		}
		if err := said.Check(); err != nil {
			return cli.Error(byFlag(err).Error())
		}
		return e.change(c.Context(), *file, args[0], *output == "json", func(s durable.Store) error {
			return byFlag(durable.Give(c.Context(), s, args[0], said))
		})
	}
	return c
}

// byFlag names the flag in an error about a field of the answer.
func byFlag(err error) error {
	var wrong *durable.Invalid
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return err
	}
	flags := map[string]string{"action": "--action", "content": "--content", "key": "KEY"}
	return &durable.Invalid{Field: flags[wrong.Field], Reason: wrong.Reason}
}

func resolve(e RunsEnv, file *string) *cobra.Command {
	var done, failed string
	var repeat bool
	c := &cobra.Command{
		Use:   "resolve {ID [KEY] | --all}",
		Short: "record the outcome of a call in doubt",
		Long: `Resolve records the outcome of a call in doubt: the process or the connection was
lost before its result was received. Find out at the backend whether the call was made. With --done the script
gets the JSON as the output of the call, with --failed a failure of kind "tool"; --repeat makes the
call again. KEY may be omitted if only one call is in doubt. The run then continues.

With --all it records the same outcome for every call in doubt of all runs that --tool, --principal and
--before select, and asks before. Exit code 1 says that some runs could not be changed.` + cli.Help(cli.JSONForm{Value: state{}}, cli.JSONForm{When: "--all", Value: changed{}}),
		Example: "  vmcp runs resolve --all --tool onboard --repeat\n  vmcp runs resolve 4qk2v9m0s7c1d8x3n5b6t0h2ya 7 --repeat\n  vmcp runs resolve 4qk2v9m0s7c1d8x3n5b6t0h2ya --done '{\"id\": 7}'",
		Args:    cobra.RangeArgs(1, 2),
	}
	c.ValidArgsFunction = e.ids(file, durable.Doubt)
	output := e.Output(c)
	all := e.every(c, file, durable.Doubt)
	fl := c.Flags()
	fl.StringVar(&done, "done", "", "the call was made, and this JSON is its output")
	fl.StringVar(&failed, "failed", "", "the call was not made, and this string is its error")
	fl.BoolVar(&repeat, "repeat", false, "the call was not made, and is made again")
	c.MarkFlagsMutuallyExclusive("done", "failed", "repeat")
	c.MarkFlagsOneRequired("done", "failed", "repeat")
	c.RunE = func(c *cobra.Command, args []string) error {
		to := durable.Resolution{Failed: failed, Repeat: repeat}
		if fl.Changed("done") {
			if !json.Valid([]byte(done)) {
				return cli.Error("--done: want JSON such as {\"id\": 7} or \"text\"")
			}
			to.Done = json.RawMessage(done)
		}
		if fl.Changed("failed") && strings.TrimSpace(failed) == "" {
			return cli.Error("--failed: want the error that the script sees, such as \"declined\"")
		}
		if fl.Changed("repeat") && !repeat {
			return cli.Error("--repeat: takes no value")
		}
		if all.on {
			return all.change(c.Context(), *file, "record this outcome for every call in doubt of these runs", *output == "json", func(s durable.Store, id string) error {
				return resolveAll(c.Context(), s, id, to)
			})
		}
		return e.change(c.Context(), *file, args[0], *output == "json", func(s durable.Store) error {
			key, err := doubted(c.Context(), s, args)
			if err != nil {
				return err
			}
			return s.Resolve(c.Context(), args[0], key, to)
		})
	}
	return c
}

// resolveAll records the same outcome for every call in doubt of a run.
func resolveAll(ctx context.Context, s durable.Store, id string, to durable.Resolution) error {
	r, _, err := s.Get(ctx, id)
	if err == nil && len(r.Doubts) == 0 {
		err = durable.ErrNoDoubt // somebody else has resolved them
	}
	for _, key := range r.Doubts {
		if err == nil {
			err = s.Resolve(ctx, id, key, to)
		}
	}
	return err
}

// doubted is the key of the call in doubt that the arguments select.
func doubted(ctx context.Context, s durable.Store, args []string) (string, error) {
	if len(args) == 2 {
		return args[1], nil
	}
	r, _, err := s.Get(ctx, args[0])
	switch {
	case err != nil:
		return "", err
	case r.State.Final():
		return "", durable.ErrEnded
	case len(r.Doubts) == 0:
		return "", durable.ErrNoDoubt
	case len(r.Doubts) > 1:
		return "", fmt.Errorf("%d calls are in doubt: name one of them, %v", len(r.Doubts), r.Doubts)
	}
	return r.Doubts[0], nil
}

func resume(e RunsEnv, file *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "resume ID",
		Short: "resume a run that is paused, sleeps or waits",
		Long:  `Resume lets a run go on that is paused, sleeps or waits, and prints its state.` + cli.Of(state{}),
		Args:  cobra.ExactArgs(1),
	}
	c.ValidArgsFunction = e.ids(file, durable.Paused, durable.Sleeping, durable.Waiting)
	output := e.Output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return e.change(c.Context(), *file, args[0], *output == "json", func(s durable.Store) error { return s.Resume(c.Context(), args[0]) })
	}
	return c
}

func cancel(e RunsEnv, file *string) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "cancel {ID | --all}",
		Short: "cancel a run: no new call is made, a pending call is completed and recorded",
		Long: `Cancel ends a run: nothing new begins, a call under way ends and is recorded. It prints the state.

With --all it cancels all runs that have not ended and that --tool, --principal, --state and --before
select, and asks before. Exit code 1 says that some runs could not be changed.` + cli.Help(cli.JSONForm{Value: state{}}, cli.JSONForm{When: "--all", Value: changed{}}),
		Example: "  vmcp runs cancel 4qk2v9m0s7c1d8x3n5b6t0h2ya\n  vmcp runs cancel --all --tool onboard --state waiting --before 7d --yes",
		Args:    cobra.ExactArgs(1),
	}
	c.ValidArgsFunction = e.ids(file, durable.States[:5]...)
	output := e.Output(c)
	all := e.every(c, file, durable.States[:5]...)
	c.Flags().StringVar(&reason, "reason", "cancelled by an operator", "the reason, which is shown with the run")
	c.RunE = func(c *cobra.Command, args []string) error {
		if all.on {
			return all.change(c.Context(), *file, "cancel these runs", *output == "json", func(s durable.Store, id string) error { return s.Cancel(c.Context(), id, reason) })
		}
		return e.change(c.Context(), *file, args[0], *output == "json", func(s durable.Store) error { return s.Cancel(c.Context(), args[0], reason) })
	}
	return c
}

// pruned is the JSON of prune.
type pruned struct {
	Pruned int `json:"pruned"`
}

func prune(e RunsEnv, file *string) *cobra.Command {
	var before, principal string
	var states []string
	c := &cobra.Command{
		Use:   "prune",
		Short: "delete runs that are done, failed or cancelled",
		Long: `Prune deletes final runs with their data and idempotency keys. The default of --before is the age
in runs.retention.` + cli.Of(pruned{}),
		Example: "  vmcp runs prune --before 30d\n  vmcp runs prune --before 0s --principal anna",
		Args:    cobra.NoArgs,
	}
	output := e.Output(c)
	fl := c.Flags()
	fl.StringVar(&before, "before", "", "runs that were last changed before then: a duration such as 7d, or a time")
	fl.StringSliceVar(&states, "state", nil, "runs in one of these final states")
	fl.StringVar(&principal, "principal", "", "runs of this principal")
	completeStates(c, durable.States[5:])
	c.RunE = func(c *cobra.Command, _ []string) error {
		asked, err := parseStates(states)
		if err != nil {
			return err
		}
		for _, s := range asked {
			if !s.Final() {
				return cli.Error(fmt.Sprintf("--state: %s is not final: want %s", s, join(durable.States[5:])))
			}
		}
		at, err := ago("--before", before)
		if err != nil {
			return err
		}
		return e.with(c.Context(), *file, func(cfg *config.Config, s durable.Store) error {
			n, err := forget(c.Context(), s, olds(cfg, at, asked, principal, fl.Changed("principal")))
			switch {
			case err != nil:
				return err
			case *output == "json":
				return e.JSON(pruned{n})
			}
			_, err = fmt.Fprintf(e.Out, "pruned %d\n", n)
			return err
		})
	}
	return c
}

// olds selects the runs to prune: those last changed before a time, or those whose retention has passed.
func olds(cfg *config.Config, before time.Time, states []durable.State, principal string, one bool) (list []durable.Old) {
	old := durable.Old{Before: before, States: states}
	if one {
		old.Principal = &principal
	}
	if !before.IsZero() {
		return []durable.Old{old}
	}
	keep := cfg.Runs.Retention
	for _, s := range durable.States[5:] {
		if states != nil && !slices.Contains(states, s) {
			continue
		}
		old.States, old.Before = []durable.State{s}, time.Now().Add(-keep.Failed.Std())
		if s == durable.Done {
			old.Before = time.Now().Add(-keep.Done.Std())
		}
		list = append(list, old)
	}
	return list
}

func forget(ctx context.Context, s durable.Store, list []durable.Old) (total int, err error) {
	for _, old := range list {
		n, pruned := s.Prune(ctx, old)
		total, err = total+n, errors.Join(err, pruned)
	}
	return total, err
}
