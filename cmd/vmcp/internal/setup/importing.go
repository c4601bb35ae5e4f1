package setup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/clients"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// importFlags are the flags of the import command.
type importFlags struct {
	from      []string
	workspace string
	write     string
	secrets   string
	dryRun    bool
}

func importing(e Env) *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import [FILE...]",
		Short: "import the servers of MCP clients as backends",
		Long: `Import reads the configurations of MCP clients and writes their servers as backends: to standard
output, or with --write into a new or existing vmcp.yaml, whose other bytes are kept. Without a file
and --from it imports from all clients found on this machine. Their files are never written.

Secrets are written to vmcp.env beside the configuration, readable by its owner only, and the
configuration refers to them as variables; with --secrets inline they are written to the configuration. In
arguments and URLs, secrets are recognized by the name before them, their position in the URL or a known prefix;
values that only look like secrets are kept, with a warning. Identical servers become one backend, and of two
with the same name one is renamed.

The exit code is 1 if a file cannot be read or a server cannot be imported; the others are imported.` + cli.Of(imported{}),
		Example: "  vmcp import --write vmcp.yaml\n  vmcp import .vscode/mcp.json\n  vmcp import --from claude --from cursor --dry-run",
	}
	flags := c.Flags()
	output := e.Output(c)
	flags.StringArrayVar(&f.from, "from", nil, "a client: "+strings.Join(cli.Names, ", ")+", or all; repeatable")
	flags.StringVar(&f.workspace, "workspace", "", "the workspace folder, for variables of clients and for settings per project")
	flags.StringVar(&f.write, "write", "", "the configuration to write")
	_ = c.MarkFlagFilename("write", "yaml", "yml") // the flag exists
	secretsFlag(c, &f.secrets)
	flags.BoolVar(&f.dryRun, "dry-run", false, "write nothing, print what would be written")
	_ = c.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(append([]string{"all"}, cli.Names...), cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := checkSecrets(f.secrets); err != nil {
			return err
		}
		all, err := f.places(args)
		if err != nil {
			return err
		}
		return e.importAll(f, all, *output == "json")
	}
	return c
}

// places are the files to be read.
func (f *importFlags) places(args []string) (all []place, err error) {
	for _, name := range args {
		all = append(all, place{"", name})
	}
	s := cli.This()
	for _, client := range f.from {
		switch file := s.File(client); {
		case client == "all":
			all = append(all, found()...)
		case file == "":
			return nil, cli.Error(fmt.Sprintf("--from: there is no client %q%s", client, display.Hint(client, cli.Names)))
		default:
			all = append(all, place{client, file})
		}
	}
	if len(args)+len(f.from) == 0 {
		if all = found(); len(all) == 0 {
			return nil, cli.WithHint(errors.New("no client with servers was found on this machine"), "name a file: vmcp import FILE")
		}
	}
	return all, nil
}

// once removes repeated files; one that was named with and without its client keeps the client.
func once(all []place) (out []place) {
	at := map[string]int{}
	for _, p := range all {
		name, err := filepath.Abs(p.file)
		if err != nil {
			name = p.file
		}
		if i, ok := at[name]; ok {
			out[i].client = cmp.Or(out[i].client, p.client)
			continue
		}
		at[name] = len(out)
		out = append(out, p)
	}
	return out
}

// imported is the result of an import.
type imported struct {
	Backends  []importedBackend  `json:"backends"`
	Variables []importedVariable `json:"variables"`
	Written   string             `json:"written,omitempty"`

	failed   bool // a file or a server could not be imported, or a filter not written
	add      []config.EditedBackend
	known    []config.EditedBackend // those of the configuration, and of add
	secrets  map[string]string
	have     map[string]string // the variables of vmcp.env
	inline   bool
	asked    map[string]clients.Variable // those of the file that is being read, by name
	describe map[string]string           // descriptions of variables, by name
	filters  map[string][]string         // filters of tools, by the backend's name
}

func newImport(secrets string) *imported {
	return &imported{Backends: []importedBackend{}, Variables: []importedVariable{}, secrets: map[string]string{}, inline: secrets == "inline",
		describe: map[string]string{}, filters: map[string][]string{}}
}

type importedBackend struct {
	Name   string `json:"name"`
	Action string `json:"action"` // added, same, renamed, skipped
	Reason string `json:"reason,omitempty"`
	Source source `json:"source"`
}

type source struct {
	Client string `json:"client,omitempty"`
	File   string `json:"file"`
	Key    string `json:"key"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

type importedVariable struct {
	Name        string   `json:"name"`
	Secret      bool     `json:"secret"`
	Set         bool     `json:"set"`
	Description string   `json:"description,omitempty"`
	UsedBy      []string `json:"usedBy"`
}

func (e Env) importAll(f importFlags, from []place, asJSON bool) error {
	file := &edited{name: cmp.Or(f.write, e.DefaultFile), new: true}
	if f.write != "" {
		var err error
		if file, err = open(f.write); err != nil {
			return err
		}
	}
	r := newImport(f.secrets)
	if f.write != "" {
		if err := r.readVariables(filepath.Dir(f.write)); err != nil {
			return err
		}
	}
	if err := r.readKnown(file.data); err != nil {
		return fmt.Errorf("%s: %w", file.name, err)
	}
	for _, p := range once(from) {
		r.read(e, p, f.workspace)
	}
	data, err := r.apply(file)
	if err != nil {
		return err
	}
	if err := r.write(e, f, file, data); err != nil {
		return err
	}
	if err := e.reportImport(r, f, data, asJSON); err != nil {
		return err
	}
	if r.failed {
		return e.Found
	}
	return nil
}

// readKnown reads the backends of the existing configuration.
func (r *imported) readKnown(data []byte) error {
	var cfg struct {
		Backends []struct {
			Name, URL, Transport, Command, Cwd string
			Headers, Env                       map[string]string
			Args                               []string
		}
	}
	if err := yaml.Unmarshal(data, &cfg); err != nil {
		return err
	}
	for _, b := range cfg.Backends {
		r.known = append(r.known, config.EditedBackend{Name: b.Name, URL: b.URL, Transport: b.Transport, Headers: b.Headers, Command: b.Command, Args: b.Args, Env: b.Env, Cwd: b.Cwd})
	}
	return nil
}

// read imports the servers of one file.
func (r *imported) read(e Env, p place, workspace string) {
	data, err := files.Read(p.file, clients.MaxFile)
	if err != nil {
		e.Tell("%s: %v", p.file, files.Cause(err))
		r.failed = true
		return
	}
	o := config.ClientOptions(p.file, workspace)
	o.Client = p.client
	f, err := clients.Read(p.file, data, o)
	if err != nil {
		e.Tell("%v", err)
		r.failed = true
		return
	}
	r.asked = map[string]clients.Variable{}
	for _, v := range f.Variables {
		r.asked[v.Name] = v
	}
	renamed := map[string]string{}
	for i := range f.Servers {
		s := &f.Servers[i]
		b := importedBackend{Name: s.Name, Source: source{p.client, p.file, s.Key, s.Pos.Line, s.Pos.Column}}
		r.take(&b, s, o.Workspace)
		for _, note := range s.Notes {
			e.Tell("%s: %s", s.Pos, note)
		}
		if b.Action != "skipped" {
			renamed[s.Name] = b.Name
		}
		r.Backends = append(r.Backends, b)
	}
	r.noteVariables(f.Variables, renamed)
}

func (r *imported) noteVariables(all []clients.Variable, renamed map[string]string) {
	for _, v := range all {
		_, set := os.LookupEnv(v.Name)
		n := importedVariable{Name: v.Name, Secret: v.Secret, Set: set || v.HasDefault, Description: v.Description}
		for _, server := range v.UsedBy {
			if name, ok := renamed[server]; ok {
				n.UsedBy = append(n.UsedBy, name)
			}
		}
		if len(n.UsedBy) == 0 {
			continue
		}
		if v.Description != "" {
			r.describe[v.Name] = v.Description
		}
		if i := slices.IndexFunc(r.Variables, func(o importedVariable) bool { return o.Name == n.Name }); i >= 0 {
			known := &r.Variables[i]
			known.Description = cmp.Or(known.Description, n.Description)
			for _, name := range n.UsedBy {
				if !slices.Contains(known.UsedBy, name) {
					known.UsedBy = append(known.UsedBy, name)
				}
			}
			continue
		}
		r.Variables = append(r.Variables, n)
	}
}

// take makes a backend of a server, unless the configuration has the same one.
func (r *imported) take(b *importedBackend, s *clients.Server, folder string) {
	if s.Skipped != "" {
		b.Action, b.Reason = "skipped", s.Skipped
		r.failed = r.failed || !s.Ignored
		return
	}
	e := config.EditedBackend{Name: s.Name, URL: s.URL, Transport: s.Transport, Headers: maps.Clone(s.Headers), Command: s.Command, Args: s.Args,
		Env: maps.Clone(s.Env), Cwd: s.Cwd, Disabled: s.Disabled}
	e.Cwd = from(folder, e.Cwd)
	if strings.Contains(e.Command, "/") {
		e.Command = from(folder, e.Command)
	}
	if s.Timeout > 0 {
		e.Timeout = s.Timeout.String()
	}
	if err := withEnvFile(&e, s.EnvFile); err != nil {
		b.Action, b.Reason, r.failed = "skipped", err.Error(), true
		return
	}
	if err := check(&e); err != nil {
		b.Action, b.Reason, r.failed = "skipped", err.Error(), true
		return
	}
	s.Notes = append(s.Notes, r.hide(&e)...)
	if same := slices.IndexFunc(r.known, func(k config.EditedBackend) bool { return isSame(&k, &e) }); same >= 0 {
		b.Name, b.Action, b.Reason = r.known[same].Name, "same", "it is the backend "+r.known[same].Name
		for i := range r.add { // a server that is switched off in one client may be used by another
			r.add[i].Disabled = r.add[i].Disabled && (e.Disabled || r.add[i].Name != b.Name)
		}
		return
	}
	b.Action = "added"
	for n := 2; slices.ContainsFunc(r.known, func(k config.EditedBackend) bool { return k.Name == e.Name }); n++ {
		e.Name = fmt.Sprintf("%s-%d", s.Name[:min(len(s.Name), 59)], n)
		b.Name, b.Action, b.Reason = e.Name, "renamed", "there is another backend "+s.Name
	}
	r.add, r.known = append(r.add, e), append(r.known, e)
	r.filters[e.Name] = s.Tools
}

// from is a path relative to a folder, joined with it. A path that begins with a variable is left as it is.
func from(folder, name string) string {
	if name == "" || filepath.IsAbs(name) || strings.HasPrefix(name, "${") {
		return name
	}
	return filepath.Join(folder, name)
}

// check returns an error for a backend that no configuration could have.
func check(b *config.EditedBackend) error {
	text, err := config.Add(nil, *b)
	if err != nil {
		return err
	}
	_, problems := config.ReadWith("", text, anyVariable)
	if problems, _ = problems.Split(); len(problems) == 0 {
		return nil
	}
	return errors.New(strings.TrimPrefix(strings.TrimPrefix(problems[0].Path, "backends[0]"), ".") + ": " + problems[0].Message)
}

// withEnvFile adds the variables of a file to those of the backend, which have precedence.
func withEnvFile(b *config.EditedBackend, file string) error {
	if file == "" {
		return nil
	}
	variables, err := config.ReadVariables(file)
	if err != nil {
		return fmt.Errorf("envFile: %w", err)
	}
	for name, value := range variables {
		if _, own := b.Env[name]; !own {
			if b.Env == nil {
				b.Env = map[string]string{}
			}
			b.Env[name] = strings.ReplaceAll(value, "${", "$${")
		}
	}
	return nil
}

// isSame reports whether two backends start the same program or call the same URL.
func isSame(a, b *config.EditedBackend) bool {
	return a.URL == b.URL && a.Command == b.Command && slices.Equal(a.Args, b.Args) && a.Cwd == b.Cwd &&
		sameMap(a.Env, b.Env) && sameMap(a.Headers, b.Headers)
}

func sameMap(a, b map[string]string) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// apply returns the text of the configuration with the backends added.
func (r *imported) apply(file *edited) ([]byte, error) {
	data, err := config.Add(file.data, r.add...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.name, err)
	}
	return r.withFilters(data), nil
}

// withFilters appends the filters of tools to a configuration without the field aggregation; with it,
// they are reported instead.
func (r *imported) withFilters(data []byte) []byte {
	var rules []string
	for _, b := range r.add {
		if filter := r.filters[b.Name]; len(filter) > 0 {
			quoted := make([]string, len(filter))
			for i, glob := range filter {
				quoted[i] = fmt.Sprintf("%q", glob)
			}
			rules = append(rules, fmt.Sprintf("    - workload: %s\n      filter: [%s]\n", b.Name, strings.Join(quoted, ", ")))
		}
	}
	if len(rules) == 0 {
		return data
	}
	var has struct{ Aggregation any }
	if err := yaml.Unmarshal(data, &has); err != nil || has.Aggregation != nil {
		r.failed = true
		for i := range r.Backends {
			if r.Backends[i].Action != "skipped" {
				r.Backends[i].Reason = strings.TrimPrefix(r.Backends[i].Reason+"; its filter of tools is left out, since the configuration has rules of aggregation", "; ")
			}
		}
		return data
	}
	if !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, '\n')
	}
	return append(data, ("aggregation:\n  tools:\n" + strings.Join(rules, ""))...)
}
