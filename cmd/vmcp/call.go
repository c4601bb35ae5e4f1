package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

func (a *app) call() *cobra.Command {
	var t target
	var args string
	c := &cobra.Command{
		Use:   "call NAME",
		Short: "call a tool of a running endpoint or of a configuration",
		Long: `Call calls one tool and prints its result: the text of it, or with --output json the
whole result as the server sent it. A result that is an error goes to standard error, and the
exit code is 1. With --config the backends of the file are started for the moment.`,
		Example: `  vmcp call workspace_list_files --args '{"path": "."}'
  vmcp call deploy --config vmcp.yaml --args - < arguments.json`,
		Args: oneTool,
	}
	t.register(c)
	c.Flags().StringVar(&args, "args", "{}", "the arguments, a JSON object; - reads them from standard input")
	output := outputFlag(c)
	c.ValidArgsFunction = func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		if t.config != "" { // starting its backends is not quick
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), time.Second)
		defer cancel()
		c.SetContext(ctx)
		return a.toolNames(c, t), cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(c *cobra.Command, names []string) error {
		arguments, err := a.arguments(args)
		if err != nil {
			return err
		}
		e, err := a.open(c.Context(), t)
		if err != nil {
			return err
		}
		defer e.Close()
		return a.callTool(c.Context(), e, names[0], arguments, *output)
	}
	return c
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

func (a *app) callTool(ctx context.Context, e *endpoint, name string, args json.RawMessage, output string) error {
	e.recorder.forget()
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	params.SetProgressToken("vmcp")
	result, err := e.CallTool(ctx, params)
	if err != nil {
		return a.callError(ctx, e, name, err)
	}
	if output == "json" {
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
		err = &hintError{err, `"vmcp tools" lists the tools`}
	}
	return err
}

// printRaw writes a result as it was sent, with line breaks.
func (a *app) printRaw(result json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, result, "", "  "); err != nil {
		return fmt.Errorf("the result is not JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(a.out)
	return err
}

// printContent writes what a person reads of a result; an error's text goes where errors go.
func (a *app) printContent(name string, r *mcp.CallToolResult) error {
	for _, c := range r.Content {
		text := contentText(c)
		if r.IsError {
			a.report(fmt.Errorf("%s: %s", name, text))
			continue
		}
		if _, err := fmt.Fprintln(a.out, text); err != nil {
			return err
		}
	}
	return nil
}

func contentText(c mcp.Content) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return fmt.Sprintf("(image, %s, %d bytes)", c.MIMEType, len(c.Data))
	case *mcp.AudioContent:
		return fmt.Sprintf("(audio, %s, %d bytes)", c.MIMEType, len(c.Data))
	case *mcp.ResourceLink:
		return fmt.Sprintf("(resource %s)", c.URI)
	case *mcp.EmbeddedResource:
		if c.Resource.Text != "" {
			return c.Resource.Text
		}
		return fmt.Sprintf("(resource %s, %d bytes)", c.Resource.URI, len(c.Resource.Blob))
	default:
		return fmt.Sprintf("(%T)", c)
	}
}
