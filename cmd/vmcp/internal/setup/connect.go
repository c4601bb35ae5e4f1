package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// This part of the package is the command vmcp connect: it adds the endpoint to the configuration files of MCP
// clients, and with --undo restores these byte for byte.

// ConnectEnv is what the command needs of the program that it is a part of.
type ConnectEnv struct {
	In  io.Reader
	Out io.Writer
	// Tell writes a message for a person; JSON a result; Output adds --output to a command.
	Tell   func(format string, args ...any)
	JSON   func(v any) error
	Output func(*cobra.Command) *string
	// Found is returned when problems have been reported already: exit code 1.
	Found error
	// Terminal is whether standard input is a terminal.
	Terminal bool
	// Program is the path of this program, for clients that start their servers.
	Program string
	// DefaultFile is the configuration in the current folder.
	DefaultFile string
	// Endpoint finds the endpoint: that of --url, else that of a configuration, else the user's running one.
	Endpoint func(url, config string) (Endpoint, error)
}

// Endpoint is what clients are connected to.
type Endpoint struct {
	URL string
	// TokenFile is a file with the token of the endpoint; "" where there is none, or it is not known.
	TokenFile string
	// Guarded is whether the endpoint asks callers for a token.
	Guarded bool
}

// flags are the flags of the command.
type flags struct {
	url, name, profile, project, config string
	replace, force, undo, dryRun, list  bool
}

// Command returns the command.
func Command(e ConnectEnv) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "connect CLIENT...",
		Short: "add the endpoint to the configurations of MCP clients",
		Long: `Connect adds one entry to the configuration of each client, and keeps every other byte of the
file: comments, order, line ends. The clients are ` + strings.Join(names(), ", ") + `.

The endpoint is --url, or the address of ./vmcp.yaml, or the running one. For a client that only
starts programs the entry is "vmcp serve --stdio --url", or with --config if that is given. For an endpoint
that requires a token the entry refers to the variable VMCP_TOKEN of the client's environment, in the syntax
of the client: no token is written.

--undo restores a file, byte for byte, or removes the entry from a file that was edited since.
A file that connect created is deleted, and folders that it created for it if they are empty.
--replace removes the client's other servers, if the endpoint's configuration has them all; --undo
restores them. An entry with the same name that connect has not written is kept, unless --force is given,
which also writes the file of a client that is not found on this machine.` + cli.Help(
			cli.JSONForm{Value: connected{}}, cli.JSONForm{When: "--list", Value: listing{}}),
		Example:           "  vmcp connect claude cursor\n  vmcp connect --list\n  vmcp connect vscode --project . --profile office\n  vmcp connect cursor --undo",
		ValidArgsFunction: cobra.FixedCompletions(names(), cobra.ShellCompDirectiveNoFileComp),
	}
	c.Flags().StringVar(&f.url, "url", "", "the endpoint (default the address of ./vmcp.yaml, else the running one)")
	c.Flags().StringVar(&f.name, "name", "vmcp", "the name of the entry")
	c.Flags().StringVar(&f.profile, "profile", "", "the profile of the endpoint that the client sees, at /mcp/NAME")
	c.Flags().StringVar(&f.project, "project", "", "write the file of the project in this folder instead of the user's (claude, cursor, vscode)")
	c.Flags().StringVar(&f.config, "config", "", "the endpoint's configuration, which claude-desktop then serves itself")
	c.Flags().BoolVar(&f.replace, "replace", false, "remove the client's other servers, which the endpoint has")
	c.Flags().BoolVar(&f.force, "force", false, "overwrite an entry with this name, and write the file of a client that is not found")
	c.Flags().BoolVar(&f.undo, "undo", false, "undo what connect has written")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "write nothing, print what would be written")
	c.Flags().BoolVar(&f.list, "list", false, "list the known clients, and which are connected")
	c.MarkFlagsMutuallyExclusive("undo", "list", "replace")
	c.MarkFlagsMutuallyExclusive("undo", "force")
	_ = c.MarkFlagFilename("config", "yaml", "yml", "json") // the flag exists
	_ = c.MarkFlagDirname("project")
	output := e.Output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.check(args); err != nil {
			return err
		}
		r := &run{ConnectEnv: e, flags: f, system: cli.This()}
		return r.all(c.Context(), args, *output == "json")
	}
	return c
}

var validName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}$`)

func (f *flags) check(args []string) error {
	switch {
	case len(args) == 0 && !f.list:
		return cli.WithHint(cli.Error("want the name of a client"), "vmcp connect --list lists the clients on this machine")
	case !validName.MatchString(f.name):
		return cli.Error(fmt.Sprintf("--name %q: want letters, digits, - and _", f.name))
	case f.profile != "" && !validName.MatchString(f.profile):
		return cli.Error(fmt.Sprintf("--profile %q: want letters, digits, - and _", f.profile))
	}
	for _, client := range args {
		switch {
		case dialects[client].shape == "":
			return cli.Error(fmt.Sprintf("there is no client %q%s; want %s", client, display.Hint(client, names()), strings.Join(names(), ", ")))
		case f.project != "" && cli.Project(client, f.project) == "":
			return cli.Error(fmt.Sprintf("--project: %s has no file for a project; claude, cursor and vscode have", client))
		}
	}
	return nil
}

// run is one invocation of the command.
type run struct {
	ConnectEnv
	flags
	system   cli.System
	endpoint target
	state    *state
}

// outcome is the result for one client.
type outcome struct {
	Client string `json:"client"`
	File   string `json:"file"`
	Entry  string `json:"entry"`
	// Action is added, updated or same; restored, removed, deleted or gone with --undo; failed.
	Action   string   `json:"action"`
	URL      string   `json:"url,omitempty"`
	Replaced []string `json:"replaced,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	// Note is what the user has to do for the client to use the entry, such as to set a variable.
	Note string `json:"note,omitempty"`

	value []byte
	err   error
}

// connected is the JSON of the command.
type connected struct {
	Clients []*outcome `json:"clients"`
	DryRun  bool       `json:"dryRun,omitempty"`
}

func (r *run) all(ctx context.Context, args []string, asJSON bool) error {
	if !r.undo {
		if err := r.find(ctx, args); err != nil {
			return err
		}
	}
	if r.list {
		return r.listAll(args, asJSON)
	}
	outcomes := []*outcome{}
	failed := false
	for _, client := range unique(args) {
		o := &outcome{Client: client, File: r.file(client), Entry: dialects[client].shape + "." + r.name}
		if o.err = r.one(o); o.err != nil {
			failed = true
			o.Action, o.Reason = "failed", o.err.Error()
		}
		if o.err == nil && !r.undo {
			o.Note = r.endpoint.note(client)
		}
		if !asJSON {
			r.report(o)
		}
		outcomes = append(outcomes, o)
	}
	if asJSON {
		if err := r.JSON(connected{outcomes, r.dryRun}); err != nil {
			return err
		}
	}
	if failed {
		return r.Found
	}
	return nil
}

func unique(args []string) (out []string) {
	for _, a := range args {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// file returns the absolute path of the configuration of a client.
func (r *run) file(client string) string {
	file := r.system.File(client)
	if r.project != "" {
		file = cli.Project(client, r.project)
	}
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return file
}

// one adds or removes the entry of one client. A file that another program changes meanwhile is read again, 10 times at most.
func (r *run) one(o *outcome) error {
	if r.replace && !r.dryRun {
		if err := r.confirm(o); err != nil {
			return err
		}
	}
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if r.state, err = readState(r.system.State()); err != nil {
		return err
	}
	if r.undo {
		return r.takeBack(o)
	}
	const attempts = 10
	for range attempts {
		if err = r.connect(o); !errors.Is(err, errChanged) {
			return err
		}
	}
	return err
}

// find finds the endpoint that the entries of these clients are to name, and reports if nothing listens there.
func (r *run) find(ctx context.Context, args []string) error {
	at, err := r.Endpoint(r.url, r.config)
	if err != nil {
		return err
	}
	u, err := url.Parse(at.URL)
	if err != nil {
		return err
	}
	if r.profile != "" {
		u = u.JoinPath(r.profile)
	}
	t := target{url: u.String(), guarded: at.Guarded, tokenFile: at.TokenFile, program: r.Program}
	if r.config != "" {
		if t.config, err = filepath.Abs(r.config); err != nil {
			return err
		}
		t.profile = r.profile
	}
	if t.tokenFile != "" {
		if t.tokenFile, err = filepath.Abs(t.tokenFile); err != nil {
			return err
		}
	}
	r.endpoint = t
	if !r.list && !t.servedBy(args) && !listens(ctx, u) {
		r.Tell("nothing is listening at %s: start the endpoint with \"vmcp serve\"", u)
	}
	return nil
}

// dialTime bounds the attempt to connect to the endpoint.
const dialTime = 2 * time.Second

func listens(ctx context.Context, u *url.URL) bool {
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	dialer := net.Dialer{Timeout: dialTime}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// connect writes the entry of one client; errChanged when the file was changed after it was read.
func (r *run) connect(o *outcome) error {
	f, err := read(o.File)
	if err != nil {
		return err
	}
	if err := r.isHere(o, f); err != nil {
		return err
	}
	d := dialects[o.Client]
	o.value, o.URL = d.value(r.endpoint), r.endpoint.url
	found, err := clients.Find(f.name, f.data, d.shape, r.name)
	if err != nil {
		return err
	}
	known := r.state.find(f.name, d.shape, r.name)
	ours := known != nil && found != nil && found.Same([]byte(known.Value))
	if o.Replaced, err = r.others(o, f); err != nil {
		return err
	}
	switch {
	case found != nil && found.Same(o.value) && len(o.Replaced) == 0:
		o.Action = "same"
		return nil
	case found != nil && !ours && !r.force && !found.Same(o.value):
		return cli.WithHint(fmt.Errorf("%s: the entry %s was not written by vmcp connect", found.Pos, r.name), "overwrite it with --force, or set another name with --name")
	}
	o.Action = "added"
	if found != nil {
		o.Action = "updated"
	}
	next, err := r.edit(o, f, d)
	if err != nil || r.dryRun {
		return err
	}
	return r.write(o, f, known, ours, next)
}

// edit returns the text of the file with the entry, and without the entries that it replaces.
func (r *run) edit(o *outcome, f *file, d dialect) (next []byte, err error) {
	next = f.data
	for _, name := range o.Replaced {
		if next, err = clients.Remove(f.name, next, d.shape, name, false); err != nil {
			return nil, err
		}
	}
	return clients.Put(f.name, next, clients.Entry{Shape: d.shape, Name: r.name, Value: o.value})
}

// write saves a record of the entry and a copy of the original file, and then writes the file, so that undo
// works wherever the process is killed.
func (r *run) write(o *outcome, f *file, known *record, ours bool, next []byte) error {
	d := dialects[o.Client]
	rec := &record{Client: o.Client, File: f.name, Shape: d.shape, Name: r.name, URL: o.URL, Value: string(o.value),
		SHA256: sum(next), Replaced: o.Replaced, At: time.Now().UTC().Truncate(time.Second)}
	original := f.data
	switch {
	case known != nil && f.there && sum(f.data) == known.SHA256: // the copy is still that of the original
		rec.Made, rec.Folders, rec.Parent, rec.Backup = known.Made, known.Folders, known.Parent, known.Backup
		rec.Replaced = unique(append(slices.Clone(known.Replaced), o.Replaced...))
	case ours: // the rest was edited since
		var err error
		if original, err = r.without(f, known); err != nil {
			return err
		}
		rec.Parent, rec.Folders = known.Parent, known.Folders
	default:
		rec.Made, rec.Folders = !f.there, missing(filepath.Dir(f.real))
		names, _ := clients.Names(f.name, f.data, d.shape) // the file was parsed before without an error
		rec.Parent = len(names) == 0 && !strings.Contains(string(f.data), d.shape)
	}
	if rec.Backup == "" && !rec.Made {
		var err error
		if rec.Backup, err = r.state.keep(rec, original); err != nil {
			return err
		}
	}
	if err := r.state.put(rec); err != nil {
		return err
	}
	if err := f.replace(next, r.project == ""); err != nil {
		if known == nil {
			removeEmpty(rec.Folders)
		}
		return errors.Join(err, r.state.revert(rec, known))
	}
	r.state.clean(known, rec)
	return nil
}

// isHere refuses a client of which neither the file nor the folder exists.
func (r *run) isHere(o *outcome, f *file) error {
	if f.there || r.force {
		return nil
	}
	folder := r.system.Folder(o.Client)
	if r.project != "" {
		folder = r.project
	}
	if isFolder(folder) {
		return nil
	}
	if r.project != "" {
		return fmt.Errorf("--project: there is no folder %s", r.project)
	}
	return cli.WithHint(fmt.Errorf("%s is not found: neither %s nor %s exists", o.Client, f.name, folder),
		"start the client once; or --force writes the file, --project DIR that of a project (claude, cursor, vscode)")
}

// report prints the outcome for a client.
func (r *run) report(o *outcome) {
	if o.err != nil {
		r.Tell("%s: %v", o.Client, o.err)
		var hinted *cli.Hint
		if errors.As(o.err, &hinted) {
			r.Tell("hint: %s", hinted.Hint())
		}
		return
	}
	would := ""
	if r.dryRun {
		would = "would be "
	}
	fmt.Fprintf(r.Out, "%s: %s: %s %s%s\n", o.Client, o.File, o.Entry, would, words[o.Action])
	if r.dryRun && len(o.value) > 0 {
		fmt.Fprintf(r.Out, "%s\n", strings.TrimSpace(string(o.value)))
	}
	if len(o.Replaced) > 0 {
		fmt.Fprintf(r.Out, "%s: in its place: %s\n", o.Client, strings.Join(o.Replaced, ", "))
	}
	if o.Note != "" {
		r.Tell("%s", o.Note)
	}
}

// words are what report prints for an action.
var words = map[string]string{
	"added": "added", "updated": "updated", "same": "left: it is there already",
	"restored": "taken out: the file is as it was", "removed": "taken out of the file, which was edited since",
	"deleted": "taken out: the file is deleted, as it was not there before", "gone": "left: it is not there any more",
}
