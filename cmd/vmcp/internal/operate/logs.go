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

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/proxy/status"
)

// logFlags are the flags of the logs command.
type logFlags struct {
	flags
	follow bool
	tail   int
}

func (e Env) logs() *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use:   "logs [BACKEND]",
		Short: "show the last lines about a backend: its standard error, its log messages, and those of vmcp about it",
		Long: `Logs shows the last lines about a backend of a running endpoint, or about all of them: what its
process writes to standard error, the log messages that it sends, and the log messages of vmcp about it.
They are kept when the backend's process ends: up to 2000 lines or 256 KiB of each backend, in memory. Values of
variables are replaced by ***NAME***. As JSON each line is an object; stream is stderr, mcp or
vmcp.` + cli.Of(status.LogLine{}),
		Example: "  vmcp logs github --tail 20\n  vmcp logs -f",
		Args:    cobra.MaximumNArgs(1),
	}
	f.register(c, e)
	c.Flags().BoolVarP(&f.follow, "follow", "f", false, "print new lines until the server ends")
	c.Flags().IntVar(&f.tail, "tail", 100, "show this `number` of existing lines")
	output := e.Output(c)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.backends(c.Context(), args), cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.tail < 0 {
			return cli.Error(fmt.Sprintf("--tail: want a number of lines, have %d", f.tail))
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
	var lost error // an error of our output, not of the server
	err = each(resp.Body, func(l status.LogLine) error {
		lost = show(l)
		return lost
	})
	switch {
	case ctx.Err() != nil:
		return nil // the user ended the command
	case lost != nil:
		return lost
	case f.follow:
		return fmt.Errorf("%s: the server has ended", at.base.String())
	}
	return err
}

// printLine returns what prints a line of the log; named says whether it begins with the backend's name. Control characters of
// a backend's text are escaped also where the output is not a terminal: it may be shown on one later.
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

// backends completes names of backends; it returns none if the endpoint does not answer soon.
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
