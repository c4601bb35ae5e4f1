package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/client"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"

	"github.com/vmcp-dev/vmcp/proxy"
)

// listedTool is one line of the tools command.
type listedTool struct {
	Name        string `json:"name"`
	Backend     string `json:"backend,omitempty"`  // of a backend's tool
	Original    string `json:"original,omitempty"` // its name there
	Scripted    bool   `json:"scripted,omitempty"`
	Hidden      bool   `json:"hidden,omitempty"`
	Description string `json:"description,omitempty"`
}

func (a *app) tools() *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:   "tools",
		Short: "list the tools of a running endpoint or of a configuration",
		Long: `Tools lists the tools that clients can call and the origin of each: a backend and its
name there, or a script. Hidden tools, which only scripts can call, are marked.
With --config the backends of the file are started for the listing.` + cli.Of([]listedTool{}),
		Example: "  vmcp tools\n  vmcp tools --config vmcp.yaml --output json",
		Args:    cobra.NoArgs,
	}
	t.register(c)
	a.registerEnvFile(c)
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		e, err := a.open(c.Context(), t, client.Options{})
		if err != nil {
			return err
		}
		defer e.Close()
		list, err := a.list(c, e)
		if err != nil {
			return err
		}
		if *output == "json" {
			return a.printJSON(list)
		}
		return a.printTools(list)
	}
	return c
}

// list combines the tool list of clients with the origins in the status.
func (a *app) list(c *cobra.Command, e *endpoint) ([]listedTool, error) {
	status, err := e.Status(c.Context())
	if err != nil {
		status = proxy.Status{} // another server: no origins
	}
	a.reportTroubles(status)
	known := map[string]proxy.ToolStatus{}
	for _, t := range status.Tools {
		known[t.Name] = t
	}
	tools, err := e.Tools(c.Context())
	if err != nil {
		return nil, err
	}
	list := []listedTool{}
	for _, tool := range tools {
		list = append(list, describe(tool, known))
	}
	for _, t := range status.Tools {
		if t.Hidden {
			list = append(list, listedTool{Name: t.Name, Backend: t.Backend, Original: t.Original, Hidden: true, Description: t.Description})
		}
	}
	return list, nil
}

func describe(tool *mcp.Tool, known map[string]proxy.ToolStatus) listedTool {
	t, ok := known[tool.Name]
	return listedTool{
		Name: tool.Name, Backend: t.Backend, Original: t.Original,
		Scripted: ok && t.Backend == "", Description: tool.Description,
	}
}

// reportStates prints the backends that are not ready.
func (a *app) reportStates(s proxy.Status) {
	for _, b := range s.Backends {
		if b.State != "ready" {
			a.reportState(b)
		}
	}
}

// reportTroubles prints why tools may be missing.
func (a *app) reportTroubles(s proxy.Status) {
	a.reportStates(s)
	for _, p := range s.Problems {
		where := strings.TrimPrefix(p.Backend+": "+p.Entry+": ", ": ")
		if p.Severity != diag.Warning && p.File == "" {
			where += p.Severity.String() + ": "
		}
		a.say("%s", where+p.Text())
	}
}

// reportState prints why a backend is not ready.
func (a *app) reportState(b proxy.BackendStatus) {
	if b.State == "disabled" {
		a.say("backend %s is disabled", b.Name)
		return
	}
	reason := strings.TrimPrefix(b.Error, "backend "+b.Name+": ")
	if reason == "" {
		reason = "no answer yet"
	}
	a.say("backend %s is %s: %s", b.Name, b.State, reason)
}

func (a *app) printTools(list []listedTool) error {
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TOOL\tFROM\tDESCRIPTION")
	for _, t := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\n", a.cell(t.Name), a.cell(t.from()), a.cell(firstSentence(t.Description)))
	}
	return w.Flush()
}

// from is the origin of a tool.
func (t *listedTool) from() string {
	switch {
	case t.Scripted:
		return "script"
	case t.Backend == "":
		return "-"
	case t.Hidden:
		return t.Backend + "." + t.Original + " (hidden)"
	}
	return t.Backend + "." + t.Original
}

// firstSentence shortens a description for a table.
func firstSentence(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if i := strings.Index(s, ". "); i > 0 {
		s = s[:i+1]
	}
	return display.ClipLine(s, 80)
}

// completeTool returns the tools for completion; none if listing them would take long.
func (a *app) completeTool(c *cobra.Command, t target) []string {
	if t.config != "" {
		return scriptNames(t.config) // its backends would have to be started first
	}
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	e, err := a.open(ctx, t, client.Options{})
	if err != nil {
		return nil
	}
	defer e.Close()
	tools, err := e.Tools(ctx)
	if err != nil {
		return nil
	}
	var words []string
	for _, tool := range tools {
		words = append(words, cobra.CompletionWithDesc(display.VisibleLine(tool.Name), display.VisibleLine(firstSentence(tool.Description))))
	}
	slices.Sort(words)
	return words
}

// scriptNames are the scripted tools of a configuration.
func scriptNames(file string) (words []string) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil
	}
	for _, t := range cfg.ScriptedTools {
		words = append(words, cobra.CompletionWithDesc(t.Name, firstSentence(t.Description)))
	}
	return words
}
