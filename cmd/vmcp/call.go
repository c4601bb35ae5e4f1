package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// callFlags are the flags of the call command.
type callFlags struct {
	target
	args, output string
	answers      answerFlags
	trace, quiet bool
}

func (a *app) call() *cobra.Command {
	var f callFlags
	c := &cobra.Command{
		Use:   "call NAME",
		Short: "call a tool of a running endpoint or of a configuration",
		Long: `Call calls one tool and prints its result: the text of it, or with --output json the
whole result as the server sent it. A result that is an error goes to standard error, and the
exit code is 1. With --config the backends of the file are started for the moment.

Progress and log messages of the call go to standard error. What the call asks is answered by
--answer and --answers, and otherwise by the person at the terminal; without one it is declined.`,
		Example: `  vmcp call workspace_list_files --args '{"path": "."}'
  vmcp call deploy --config vmcp.yaml --args - < arguments.json
  vmcp call deploy --answer environment=staging --answer confirm=yes --trace`,
		Args: oneTool,
	}
	f.register(c)
	c.Flags().StringVar(&f.args, "args", "{}", "the arguments, a JSON object; - reads them from standard input")
	c.Flags().StringArrayVar(&f.answers.pairs, "answer", nil, "an answer to what the call asks, name=value; may be given several times")
	c.Flags().StringVar(&f.answers.object, "answers", "", "answers to what the call asks, a JSON object; {} accepts what has nothing to fill in")
	c.Flags().BoolVar(&f.trace, "trace", false, "show on standard error what a scripted tool did, with times")
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
	e, err := a.open(ctx, f.target, func(e *endpoint) *mcp.ClientOptions {
		k.recorder = e.recorder
		if !f.quiet {
			e.recorder.notify = a.tellNotification
		}
		return k.clientOptions()
	})
	if err != nil {
		return err
	}
	defer e.Close()
	err = a.callTool(ctx, e, name, arguments, f)
	k.tellUnused()
	return err
}

// tellNotification shows progress and log messages.
func (a *app) tellNotification(method string, params json.RawMessage) {
	switch method {
	case wire.Progress:
		var p mcp.ProgressNotificationParams
		if json.Unmarshal(params, &p) == nil {
			a.say("%s", progressText(&p))
		}
	case wire.LogMessage:
		var p mcp.LoggingMessageParams
		if json.Unmarshal(params, &p) == nil {
			a.say("%s", messageText(&p))
		}
	}
}

func progressText(p *mcp.ProgressNotificationParams) string {
	text := fmt.Sprintf("%g", p.Progress)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %g", p.Total)
	}
	return strings.TrimSpace(text + " " + p.Message)
}

// messageText is a log message on a line: its text, and its other fields behind.
func messageText(p *mcp.LoggingMessageParams) string {
	text := fmt.Sprint(p.Data)
	if fields, ok := p.Data.(map[string]any); ok {
		text = fmt.Sprint(fields["message"])
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if name != "message" {
				value, _ := json.Marshal(fields[name]) // it was JSON
				text += fmt.Sprintf(" %s=%s", name, value)
			}
		}
	}
	if p.Level != "info" {
		text = string(p.Level) + ": " + text
	}
	return text
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
	e.recorder.forget()
	params := &mcp.CallToolParams{Meta: mcp.Meta{}, Name: name, Arguments: args}
	if !f.quiet {
		params.SetProgressToken("vmcp")
		params.Meta[mcp.MetaKeyLogLevel] = "info"
	}
	if f.trace {
		params.Meta[metaTrace] = true
	}
	result, err := e.CallTool(ctx, params)
	if err != nil {
		return a.callError(ctx, e, name, err)
	}
	if f.trace {
		a.tellTrace(e.recorder.result())
	}
	if f.output == "json" {
		err = a.printRaw(e.recorder.result())
	} else {
		err = a.printContent(name, result)
	}
	if err == nil && result.IsError {
		return errTold
	}
	return err
}

// callError says what the server said, and what may explain it.
func (a *app) callError(ctx context.Context, e *endpoint, name string, err error) error {
	var refused *jsonrpc.Error
	if !errors.As(err, &refused) {
		return fmt.Errorf("call %s: %w", name, err)
	}
	if status, err := e.status(ctx); err == nil {
		a.tellTroubles(status)
	}
	err = fmt.Errorf("call %s: %s (%d)", name, refused.Message, refused.Code)
	if refused.Code == jsonrpc.CodeInvalidParams {
		return &hintError{err, e.nearest(ctx, name)}
	}
	return err
}

// nearest is a hint for a name that may be misspelled.
func (e *endpoint) nearest(ctx context.Context, name string) string {
	tools, err := e.list(ctx)
	if err == nil {
		names := make([]string, len(tools))
		for i, t := range tools {
			names[i] = t.Name
		}
		if near := spell.Nearest(name, names); near != "" && near != name {
			return fmt.Sprintf("did you mean %q?", near)
		}
	}
	return `"vmcp tools" lists the tools`
}
