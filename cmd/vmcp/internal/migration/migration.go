// Package migration is the command vmcp migrate-composite: it reads workflows from files, translates them into
// scripts, and prints, writes or verifies these.
package migration

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/migrate"
)

// Migration is the flags and surroundings of the command.
type Migration struct {
	In  io.Reader
	Out io.Writer
	// Say writes a message for a person.
	Say func(format string, args ...any)

	Files  []string // files, folders, - for standard input
	Style  string   // a [migrate.Style]
	Output string   // script or scripted-tools: what is printed
	Write  string   // the folder to write into; empty: print
	Cases  string   // of Verify: a file with recorded cases, or a folder of them
	All    bool     // every workflow of the files
	Fix    bool     // the intended meaning of definitions that the legacy engine refused
}

// workflowFile is a file that may define workflows.
type workflowFile struct {
	name     string // in messages
	data     []byte
	found    *migrate.File
	inFolder bool // found in a folder: it need not define any
}

// Check returns an error for values that a flag does not have; output reports whether --output was given.
func (m *Migration) Check(output bool) error {
	switch {
	case m.Write != "" && output:
		return cli.Error("want either --write, which writes files, or --output, which prints")
	case m.Style != string(migrate.Exact) && m.Style != string(migrate.Clean):
		return cli.Error("--style: want exact or clean, have " + m.Style)
	case m.Output != "script" && m.Output != "scripted-tools":
		return cli.Error("--output: want script or scripted-tools, have " + m.Output)
	}
	return nil
}

// chosen reads the files and translates the workflows with these names.
func (m *Migration) chosen(names []string) (sources []*workflowFile, scripts []*migrate.Script, err error) {
	if sources, err = m.read(); err == nil {
		scripts, err = m.scripts(sources, names)
	}
	return sources, scripts, err
}

// Run translates the workflows with these names, or the only one, and prints or writes the scripts.
func (m *Migration) Run(names []string) error {
	sources, scripts, err := m.chosen(names)
	if err != nil {
		return err
	}
	for _, s := range scripts {
		for _, n := range s.Notes {
			m.Say("%s", n)
		}
	}
	m.unresolved(sources)
	if err := checkScripts(scripts, m.Style); err != nil {
		return err
	}
	switch {
	case m.Write != "":
		return m.writeAll(sources, scripts)
	case m.Output == "scripted-tools":
		return m.printEntries(scripts)
	}
	for i, s := range scripts {
		if i > 0 {
			fmt.Fprintln(m.Out)
		}
		fmt.Fprint(m.Out, s.Source)
	}
	return nil
}

// read reads everything that -f names, and the workflows in it.
func (m *Migration) read() (sources []*workflowFile, err error) {
	for _, name := range m.Files {
		found, err := m.open(name)
		if err != nil {
			return nil, err
		}
		sources = append(sources, found...)
	}
	var problems []error
	some := false
	for _, s := range sources {
		if s.found, err = migrate.Find(s.name, s.data); err != nil {
			problems = append(problems, err)
			continue
		}
		some = some || len(s.found.Definitions) > 0
		if len(s.found.Definitions) == 0 && !s.inFolder {
			problems = append(problems, migrate.NoWorkflow(s.name))
		}
	}
	if !some && problems == nil {
		problems = append(problems, fmt.Errorf("%s: no workflows found", strings.Join(m.Files, ", ")))
	}
	return sources, errors.Join(problems...)
}

// open reads a file, all files of a folder, or standard input.
func (m *Migration) open(name string) ([]*workflowFile, error) {
	if name == "-" {
		data, err := io.ReadAll(m.In)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return []*workflowFile{{name: "<stdin>", data: data}}, nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, cli.WithHint(fmt.Errorf("%s: no such file", name), "-f names the files with the workflows")
	case err != nil:
		return nil, err
	case !info.IsDir():
		data, err := readWorkflows(name)
		return []*workflowFile{{name: name, data: data}}, err
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var sources []*workflowFile
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.IsDir() || ext != ".yaml" && ext != ".yml" {
			continue
		}
		path := filepath.Join(name, e.Name())
		data, err := files.Read(path, maxWorkflows)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		sources = append(sources, &workflowFile{name: path, data: data, inFolder: true})
	}
	return sources, nil
}

// maxWorkflows bounds one file, in bytes.
const maxWorkflows = 64 << 20

// readWorkflows reads a path that -f names, which need not be a regular file: a shell's <(command) is a pipe.
func readWorkflows(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxWorkflows+1))
	if err == nil && len(data) > maxWorkflows {
		err = fmt.Errorf("%s: more than %d bytes", name, maxWorkflows)
	}
	return data, err
}

// unresolved reports references of servers to definitions that none of the files has.
func (m *Migration) unresolved(sources []*workflowFile) {
	var known []string
	for _, s := range sources {
		for _, d := range s.found.Definitions {
			known = append(known, d.Resource)
		}
	}
	for _, s := range sources {
		for _, r := range s.found.References {
			if slices.Contains(known, r.Name) {
				continue
			}
			hint := ""
			if meant := display.Nearest(r.Name, known); meant != "" {
				hint = fmt.Sprintf(", did you mean %s?", meant)
			}
			m.Say("%s: %s: no VirtualMCPCompositeToolDefinition %q among the files%s; it is not migrated", r.Pos, r.Path, r.Name, hint)
		}
	}
}

// scripts translates the chosen workflows. It reports the problems of all of them.
func (m *Migration) scripts(sources []*workflowFile, names []string) ([]*migrate.Script, error) {
	var defs []*migrate.Definition
	for _, s := range sources {
		defs = append(defs, s.found.Definitions...)
	}
	defs, err := m.choose(defs, names)
	if err != nil {
		return nil, err
	}
	var scripts []*migrate.Script
	var problems []error
	for _, d := range defs {
		s, err := migrate.Translate(d, migrate.Options{Style: migrate.Style(m.Style), Fix: m.Fix, Checked: m.Cases == ""})
		if err != nil {
			problems = append(problems, err)
			continue
		}
		scripts = append(scripts, s)
	}
	return scripts, errors.Join(problems...)
}

// choose returns the definitions with the names; without names the only one, or all.
func (m *Migration) choose(defs []*migrate.Definition, names []string) ([]*migrate.Definition, error) {
	known := make([]string, len(defs))
	for i, d := range defs {
		known[i] = d.Name
	}
	files := strings.Join(m.Files, ", ")
	if files == "-" {
		files = "<stdin>"
	}
	switch {
	case len(names) > 0 && m.All:
		return nil, cli.Error("want names or --all, not both")
	case len(names) == 0 && (m.All || len(defs) == 1):
		return defs, nil
	case len(names) == 0:
		return nil, cli.WithHint(cli.Error(fmt.Sprintf("%s has %d workflows: %s", files, len(defs), strings.Join(known, ", "))),
			"name some, or migrate --all")
	}
	var chosen []*migrate.Definition
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("%s: no workflow %q, there is %s", files, name, strings.Join(known, ", "))
		}
		chosen = append(chosen, defs[i])
	}
	return chosen, nil
}
