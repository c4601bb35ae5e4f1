package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
)

// callFlags are the flags of the call command.
type callFlags struct {
	target
	args, output string
	answers      []string // name=value
	answerObject string   // JSON
	trace        string   // "", treeOnScreen or a file
	quiet        bool
	keeping      keeping
}

func (a *app) call() *cobra.Command {
	var f callFlags
	c := &cobra.Command{
		Use:   "call NAME",
		Short: "call a tool of a running endpoint or of a configuration",
		Long: `Call calls one tool and prints its result: its text, or as JSON the whole result as the server
sent it, including unknown members. A result that is an error goes to standard error, and the
exit code is 1. With --config the backends of the file are started for the call.

Progress and log messages of the call go to standard error. Questions of the call (elicitation) are
answered by --answer and --answers, else by the user at the terminal; without a terminal they are declined.` + client.ResultForm,
		Example: `  vmcp call workspace_list_files --args '{"path": "."}'
  vmcp call deploy --config vmcp.yaml --args - < arguments.json
  vmcp call deploy --answer environment=staging --answer confirm=yes --trace
  vmcp call deploy --config vmcp.yaml --record tools/deploy_cases/staging.json`,
		Args: oneTool,
	}
	f.register(c)
	a.registerEnvFile(c)
	c.Flags().StringVar(&f.args, "args", "{}", "the arguments, a JSON object; - reads them from standard input")
	c.Flags().StringArrayVar(&f.answers, "answer", nil, "an answer to a question of the call, name=value; repeatable")
	c.Flags().StringVar(&f.answerObject, "answers", "", "answers to the questions of the call, a JSON object; {} accepts questions without fields")
	f.keeping.register(c, &f.trace)
	c.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "show no progress and no log messages")
	output := outputFlag(c)
	c.ValidArgsFunction = func(c *cobra.Command, names []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(names) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeTool(c, f.target), cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(c *cobra.Command, names []string) error {
		f.output = *output
		if err := f.keeping.check(&f.target, f.trace); err != nil {
			return err
		}
		return a.runCall(c.Context(), names[0], &f)
	}
	return c
}

func (a *app) runCall(ctx context.Context, name string, f *callFlags) error {
	arguments, err := a.arguments(f.args)
	if err != nil {
		return err
	}
	k, done, err := a.newAsker(ctx, f)
	if err != nil {
		return err
	}
	defer done()
	o := client.Options{Asker: k}
	if !f.quiet {
		o.Notify = a.printNotification
	}
	f.target.keeping = &f.keeping
	e, err := a.open(ctx, f.target, o)
	if err != nil {
		return err
	}
	defer e.Close()
	err = a.callTool(ctx, e, name, arguments, f)
	for _, answer := range k.Unused() {
		a.say("the answer %s was not used: no question asked for it", answer)
	}
	return err
}

// newAsker returns what answers the questions of the call.
func (a *app) newAsker(ctx context.Context, f *callFlags) (k *client.Asker, done func(), err error) {
	done = func() {}
	given, err := client.ParseAnswers(f.answers, f.answerObject)
	if err != nil {
		return nil, done, usageError(err.Error())
	}
	k = &client.Asker{Context: ctx, Given: given, Agrees: f.answerObject != "", Screen: a.err}
	k.Tell = func(message string) { printMessage(k.Screen, message) }
	if f.args == "-" || !isTerminal(a.in) {
		return k, done, nil
	}
	if !isTerminal(a.err) { // questions would not be seen
		tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
		if err != nil {
			return k, done, nil
		}
		k.Screen, done = tty, func() { _ = tty.Close() }
	}
	k.Terminal = bufio.NewReader(a.in)
	return k, done, nil
}

// printNotification shows progress and log messages.
func (a *app) printNotification(method string, params json.RawMessage) {
	if text := client.NotificationText(method, params); text != "" {
		a.say("%s", text)
	}
}

func oneTool(_ *cobra.Command, names []string) error {
	if len(names) != 1 {
		return fmt.Errorf("call: want the name of one tool, have %d", len(names))
	}
	return nil
}

// arguments reads the JSON object of --args.
func (a *app) arguments(text string) (json.RawMessage, error) {
	data := []byte(text)
	if text == "-" {
		var err error
		if data, err = io.ReadAll(a.in); err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
	}
	if data = bytes.TrimSpace(data); !json.Valid(data) || data[0] != '{' {
		return nil, usageError(`--args: want a JSON object such as '{"path": "."}'`)
	}
	return data, nil
}

func (a *app) callTool(ctx context.Context, e *endpoint, name string, args json.RawMessage, f *callFlags) error {
	result, err := e.Call(ctx, client.Call{Name: name, Arguments: args, Progress: !f.quiet, Trace: f.trace != ""})
	kept := f.keeping.write(name, result)
	if err != nil {
		return a.callError(ctx, e, name, err)
	}
	if f.trace == treeOnScreen {
		a.printTrace(result)
	}
	if f.output == "json" {
		err = a.printRaw(result.Raw)
	} else {
		err = a.printContent(name, result)
	}
	switch {
	case err != nil:
		return err
	case kept != nil:
		return kept
	case result.IsError:
		return errReported
	}
	return nil
}

func (a *app) printTrace(r *client.Result) {
	t := client.TraceOf(r.Raw)
	if t == nil {
		a.say("no trace: this is not a scripted tool")
		return
	}
	for _, line := range t.Lines() {
		a.say("%s", line)
	}
}

// callError is the error of a call, with a hint.
func (a *app) callError(ctx context.Context, e *endpoint, name string, err error) error {
	var refused *jsonrpc.Error
	if !errors.As(err, &refused) {
		return fmt.Errorf("call %s: %w", name, err)
	}
	if status, err := e.Status(ctx); err == nil {
		a.reportStates(status)
	}
	err = fmt.Errorf("call %s: %s (%d)", name, refused.Message, refused.Code)
	if refused.Code != jsonrpc.CodeInvalidParams {
		return err
	}
	if near := e.Nearest(ctx, name); near != "" {
		return cli.WithHint(err, fmt.Sprintf("did you mean %q?", near))
	}
	return cli.WithHint(err, `"vmcp tools" lists the tools`)
}
