package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/config/internal/document"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// ClientOptions are the values of the variables for folders in a client's file: workspace is the
// folder that the client was opened in, "" to derive it from the path of the file.
func ClientOptions(filename, workspace string) clients.Options {
	home, _ := os.UserHomeDir() // without it ~/ is not expanded
	if workspace == "" {
		workspace = folder(filename)
		if slices.Contains([]string{".vscode", ".cursor", ".gemini", ".zed", ".codex", ".kiro"}, filepath.Base(workspace)) {
			workspace = filepath.Dir(workspace)
		}
	}
	return clients.Options{Home: home, Workspace: workspace}
}

// readClients reads the configuration of an MCP client and makes its servers backends. The file
// belongs to the client: a problem of one server is a warning, and that backend is unusable.
func readClients(filename string, data []byte, env func(string) (string, bool)) (*Config, diag.Problems) {
	o := ClientOptions(filename, "")
	f, err := clients.Read(filename, data, o)
	if problems, ok := err.(diag.Problems); ok {
		return nil, problems
	}
	d, c := document.New(filename, strict), &Config{}
	d.Decode([]byte("{}"), MaxFile, c)
	v := &validator{Validator{Document: d, Env: env, Dir: folder(filename)}}
	v.config(c)
	b := &clientBackends{file: f, env: env, dir: o.Workspace, names: map[string]bool{}, named: map[string]string{}, c: c}
	for i := range f.Servers {
		b.add(&f.Servers[i])
	}
	c.expanded, c.named, c.envFiles = b.expanded, b.named, b.envFiles
	c.written, _ = json.Marshal(b.written())
	c.places, c.origins, c.warnings = b.places(filename), map[string]diag.Origin{}, b.warnings.Sorted()
	c.Complete()
	return c, append(d.Problems, b.warnings...).Sorted()
}

// clientBackends builds the configuration with the servers of a client.
type clientBackends struct {
	file     *clients.File
	env      func(string) (string, bool)
	dir      string // of relative paths
	names    map[string]bool
	c        *Config
	from     []*clients.Server // the server of each backend
	expanded []string
	named    map[string]string // the names of variables by their values
	envFiles []string
	warnings diag.Problems
}

func (b *clientBackends) warn(s *clients.Server, format string, args ...any) {
	b.warnings = append(b.warnings, diag.Problem{Pos: s.Pos, Path: s.Key, Severity: diag.Warning, Code: code, Message: fmt.Sprintf(format, args...)})
}

// add adds the backend of a server. Skipped are vmcp's own entry and servers without a name.
func (b *clientBackends) add(s *clients.Server) {
	for _, note := range s.Notes {
		b.warn(s, "%s", note)
	}
	if s.Ignored || s.Name == "" {
		b.warn(s, "left out: %s", s.Skipped)
		return
	}
	backend, why := Backend{Name: b.unused(s.Name)}, s.Skipped
	if why == "" {
		backend, why = b.backend(backend.Name, s)
	}
	if why != "" && !s.Disabled {
		backend = Backend{Name: backend.Name, URL: "http://unusable.invalid/", Transport: s.Transport, Unusable: why}
		if s.Command != "" {
			backend.URL, backend.Command = "", s.Command
		}
		b.warn(s, "the backend %s is down: %s", backend.Name, why)
	}
	b.c.Backends, b.from = append(b.c.Backends, backend), append(b.from, s)
	if filter := b.filter(s); len(filter) > 0 && why == "" {
		b.c.Aggregation.Tools = append(b.c.Aggregation.Tools, WorkloadTools{Workload: backend.Name, Filter: filter})
	}
}

// written are the servers without their positions in the file.
func (b *clientBackends) written() []clients.Server {
	all := slices.Clone(b.file.Servers)
	for i := range all {
		all[i].Pos, all[i].Notes = diag.Pos{}, nil
	}
	return all
}

// filter is the filter of the server without invalid globs.
func (b *clientBackends) filter(s *clients.Server) (filter []string) {
	for _, glob := range s.Tools {
		if !isFilter(glob) {
			b.warn(s, "%q is not a valid glob for tools; it is ignored", glob)
			continue
		}
		filter = append(filter, glob)
	}
	return filter
}

// unused returns a name that no backend has yet.
func (b *clientBackends) unused(name string) string {
	for n, try := 2, name; ; n++ {
		if !b.names[try] {
			b.names[try] = true
			return try
		}
		try = fmt.Sprintf("%s-%d", name[:min(len(name), 59)], n)
	}
}

// backend checks the fields of a server like those of a backend of vmcp.yaml. why is the problem, "" for none.
func (b *clientBackends) backend(name string, s *clients.Server) (backend Backend, why string) {
	from := map[string]string{}
	for _, v := range b.file.Variables {
		from[v.Name] = v.From
	}
	fields, err := b.withEnvFile(s)
	if err != nil {
		return Backend{Name: name}, err.Error()
	}
	text, err := json.Marshal(map[string]any{"backends": []Backend{fields(name)}})
	if err != nil {
		return Backend{Name: name}, err.Error()
	}
	d, c := document.New(b.file.Shape, strict), &Config{}
	if !d.Decode(text, clients.MaxFile, c) {
		return Backend{Name: name}, d.Problems[0].Message
	}
	v := &validator{Validator{Document: d, Env: b.env, Dir: b.dir, Lenient: s.Disabled}}
	v.backends(c)
	b.expanded = append(b.expanded, v.Secrets...)
	maps.Copy(b.named, v.Named)
	if len(d.Problems) > 0 {
		return Backend{Name: name}, explain(d.Problems[0], from)
	}
	return c.Backends[0], ""
}

// explain is the message of a problem in the terms of the client's file: without the position, and with
// the name that a missing variable has in that file.
func explain(p diag.Problem, from map[string]string) string {
	message := p.Message
	if name, ok := strings.CutPrefix(message, "the environment has no variable "); ok && from[name] != "" && from[name] != name && from[name] != "${"+name+"}" {
		message += " (from " + from[name] + ")"
	}
	field, _ := strings.CutPrefix(p.Path, "backends[0]")
	if field = strings.TrimPrefix(field, "."); field == "" {
		return message
	}
	return field + ": " + message
}

// withEnvFile adds the variables of the server's envFile; those of its env take precedence.
func (b *clientBackends) withEnvFile(s *clients.Server) (func(name string) Backend, error) {
	env := s.Env
	if s.EnvFile != "" {
		b.envFiles = append(b.envFiles, s.EnvFile)
		variables, problems, err := envfileRead(s.EnvFile, code)
		if err != nil {
			return nil, fmt.Errorf("envFile: %w", err)
		}
		if len(problems) > 0 {
			return nil, fmt.Errorf("envFile: %w", problems[0])
		}
		env = map[string]string{}
		for name, value := range variables {
			env[name] = strings.ReplaceAll(value, "${", "$${")
		}
		maps.Copy(env, s.Env)
	}
	return func(name string) Backend {
		return Backend{Name: name, URL: s.URL, Transport: s.Transport, Headers: s.Headers, Command: s.Command, Args: s.Args, Env: env, Cwd: s.Cwd,
			Timeout: Duration(s.Timeout), Disabled: s.Disabled}
	}, nil
}

// places returns the positions of the backends in the file, by path.
func (b *clientBackends) places(filename string) map[string]diag.Pos {
	places := map[string]diag.Pos{"": {File: diag.File(filename), Line: 1, Column: 1}}
	for i, s := range b.from {
		places[document.IndexPath("backends", i)] = s.Pos
	}
	return places
}
