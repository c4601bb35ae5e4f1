package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/jsonform"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/usage"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// logFlags are those of the logs command.
type logFlags struct {
	flags
	follow bool
	tail   int
}

func (e Env) logs() *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use:   "logs [BACKEND]",
		Short: "show the last lines about a backend: its standard error, its log messages, and ours about it",
		Long: `Logs shows the last lines about a backend of a running endpoint, or about all of them: what its
process writes to standard error, the log messages that it sends, and what vmcp itself says of it.
They outlive the process: up to 2000 lines or 256 KiB of each backend are kept in memory. Values of
variables are replaced by ***NAME***. As JSON every line is a text of its own; stream is stderr, mcp or
vmcp.` + jsonform.Of(status.LogLine{}),
		Example: "  vmcp logs github --tail 20\n  vmcp logs -f",
		Args:    cobra.MaximumNArgs(1),
	}
	f.register(c, e)
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with lines as they come, until the server ends")
	c.Flags().IntVar(&f.tail, "tail", 100, "show this `number` of lines that are there already")
	output := e.Output(c)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.backends(c.Context(), args), cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.tail < 0 {
			return usage.Error(fmt.Sprintf("--tail: want a number of lines, have %d", f.tail))
		}
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		return e.runLogs(c.Context(), &f, name, *output == "json")
	}
	return c
}

func (e Env) runLogs(ctx context.Context, f *logFlags, backend string, asJSON bool) error {
	at, err := f.open()
	if err != nil {
		return err
	}
	path := "logs"
	if backend != "" {
		path = "backends/" + segment(backend) + "/logs"
	}
	resp, err := at.get(ctx, path, url.Values{"tail": {strconv.Itoa(f.tail)}, "follow": {strconv.FormatBool(f.follow)}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	show := e.printLine(backend == "")
	if asJSON {
		show = e.printJSONLine
	}
	var lost error // of our output, and not of the server
	err = each(resp.Body, func(l status.LogLine) error {
		lost = show(l)
		return lost
	})
	switch {
	case ctx.Err() != nil:
		return nil // the user ended it
	case lost != nil:
		return lost
	case f.follow:
		return fmt.Errorf("%s: the server has ended", at.base.String())
	}
	return err
}

// printLine writes lines for a person; named says to name the backend in each. What a backend has written could lead a
// terminal astray: it is escaped wherever it goes.
func (e Env) printLine(named bool) func(status.LogLine) error {
	return func(l status.LogLine) error {
		name := ""
		if named {
			name = e.Line(l.Backend) + " "
		}
		level := ""
		if l.Stream != "stderr" && l.Level != "info" {
			level = e.Line(l.Level) + ": "
		}
		_, err := fmt.Fprintf(e.Out, "%s %s%-6s %s%s\n", l.Time.Local().Format(time.TimeOnly+".000"), name, e.Line(l.Stream), level, e.Line(l.Text))
		return err
	}
}

func (e Env) printJSONLine(l status.LogLine) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return err
	}
	_, err := e.Out.Write(text.Bytes())
	return err
}

// backends are names for completion; none when that is not quick.
func (f *flags) backends(ctx context.Context, args []string) (names []string) {
	if len(args) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	at, err := f.open()
	if err != nil {
		return nil
	}
	var s status.Status
	if at.fetch(ctx, "status", &s) != nil {
		return nil
	}
	for _, b := range s.Backends {
		names = append(names, cobra.CompletionWithDesc(b.Name, b.State))
	}
	return names
}
