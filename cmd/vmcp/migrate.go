package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/migrate"
)

// migration is what migrate-composite was asked to do.
type migration struct {
	*app
	files                     []string
	style, output, dir, cases string
	all, fix                  bool
}

// workflowFile is a file that may have workflows.
type workflowFile struct {
	name     string // as messages have it
	data     []byte
	found    *migrate.File
	inFolder bool // it need not have any
}

func (a *app) migrate() *cobra.Command {
	m := &migration{app: a}
	c := &cobra.Command{
		Use:   "migrate-composite [NAME...]",
		Short: "turn legacy YAML workflows into scripts",
		Long: `Migrate-composite reads workflows in ToolHive's YAML format from a configuration with
compositeTools, from one definition or from Kubernetes manifests, and prints each as a script.

The exact style does what the legacy engine did, quirks included; the clean style is what a
person would have written. What deserves a person's eye goes to standard error with its place
in the YAML.

Write looks at all files before it writes the first. A file that is there already with the
same content is fine; one with another is not written over.`,
		Example: `  vmcp migrate-composite deploy --style clean
  vmcp migrate-composite -f composites.yaml --all --output scripted-tools
  vmcp migrate-composite --all --write scripts
  vmcp migrate-composite -f manifests/ --all --style clean --write scripts
  vmcp migrate-composite --verify cases/`,
	}
	f := c.Flags()
	f.StringSliceVarP(&m.files, "file", "f", []string{defaultFile}, "where the workflows are: files, folders of .yaml and .yml, - for standard input")
	f.BoolVar(&m.all, "all", false, "migrate every workflow of the file")
	f.StringVar(&m.style, "style", string(migrate.Exact), "exact: what the legacy engine did; clean: what a person would have written")
	f.StringVarP(&m.output, "output", "o", "script", "what is printed: script, or scripted-tools for entries of a configuration")
	f.StringVar(&m.dir, "write", "", "write the scripts into this folder, and the configuration that uses them next to the old one")
	f.BoolVar(&m.fix, "fix", false, "migrate what a definition means where the legacy engine refused it")
	f.StringVar(&m.cases, "verify", "", "run recorded cases (a file or a folder) against the scripts and show what differs")
	c.RunE = func(c *cobra.Command, names []string) error {
		if f.Changed("write") && m.dir == "" {
			return usageError("--write: want a folder")
		}
		if err := m.check(f.Changed("output")); err != nil {
			return err
		}
		if m.cases != "" {
			return m.verify(c.Context(), f.Changed("file"), names)
		}
		return m.run(names)
	}
	return c
}

// check refuses values that flags do not have.
func (m *migration) check(output bool) error {
	switch {
	case m.dir != "" && output:
		return usageError("want --write, which puts scripts and entries into files, or --output, which prints; not both")
	case m.style != string(migrate.Exact) && m.style != string(migrate.Clean):
		return usageError("--style: want exact or clean, have " + m.style)
	case m.output != "script" && m.output != "scripted-tools":
		return usageError("--output: want script or scripted-tools, have " + m.output)
	}
	return nil
}

// chosen reads the files and makes scripts of the workflows of these names.
func (m *migration) chosen(names []string) (sources []*workflowFile, scripts []*migrate.Script, err error) {
	if sources, err = m.read(); err == nil {
		scripts, err = m.scripts(sources, names)
	}
	return sources, scripts, err
}

func (m *migration) run(names []string) error {
	sources, scripts, err := m.chosen(names)
	if err != nil {
		return err
	}
	for _, s := range scripts {
		for _, n := range s.Notes {
			m.say("%s", n)
		}
	}
	m.unresolved(sources)
	switch {
	case m.dir != "":
		return m.write(sources, scripts)
	case m.output == "scripted-tools":
		return m.printEntries(scripts)
	}
	for i, s := range scripts {
		if i > 0 {
			fmt.Fprintln(m.out)
		}
		fmt.Fprint(m.out, s.Source)
	}
	return nil
}

// read reads everything that -f names, and finds the workflows in it.
func (m *migration) read() (sources []*workflowFile, err error) {
	for _, name := range m.files {
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
		problems = append(problems, fmt.Errorf("%s: no file here has a workflow", strings.Join(m.files, ", ")))
	}
	return sources, errors.Join(problems...)
}

// open reads a file, all files of a folder, or standard input.
func (m *migration) open(name string) ([]*workflowFile, error) {
	if name == "-" {
		data, err := io.ReadAll(m.in)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return []*workflowFile{{name: "<stdin>", data: data}}, nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, &hintError{fmt.Errorf("%s: no such file", name), "-f names the files with the workflows"}
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

// maxWorkflows bounds the text of a file.
const maxWorkflows = 64 << 20

// readWorkflows reads what -f names itself, which need not be a regular file: a shell's <(command) is a pipe.
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

// unresolved reports references of servers to definitions that are in no file.
func (m *migration) unresolved(sources []*workflowFile) {
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
			if meant := spell.Nearest(r.Name, known); meant != "" {
				hint = fmt.Sprintf(", did you mean %s?", meant)
			}
			m.say("%s: %s: no VirtualMCPCompositeToolDefinition %q among the files%s; it is not migrated", r.Pos, r.Path, r.Name, hint)
		}
	}
}

// scripts migrates the workflows that are asked for. All problems of all of them are reported.
func (m *migration) scripts(sources []*workflowFile, names []string) ([]*migrate.Script, error) {
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
		s, err := migrate.Translate(d, migrate.Options{Style: migrate.Style(m.style), Fix: m.fix, Checked: m.cases == ""})
		if err != nil {
			problems = append(problems, err)
			continue
		}
		scripts = append(scripts, s)
	}
	return scripts, errors.Join(problems...)
}

// choose returns the definitions with the names; without names the only one, or all.
func (m *migration) choose(defs []*migrate.Definition, names []string) ([]*migrate.Definition, error) {
	known := make([]string, len(defs))
	for i, d := range defs {
		known[i] = d.Name
	}
	files := strings.Join(m.files, ", ")
	if files == "-" {
		files = "<stdin>"
	}
	switch {
	case len(names) > 0 && m.all:
		return nil, usageError("want names or --all, not both")
	case len(names) == 0 && (m.all || len(defs) == 1):
		return defs, nil
	case len(names) == 0:
		return nil, &hintError{usageError(fmt.Sprintf("%s has %d workflows: %s", files, len(defs), strings.Join(known, ", "))),
			"name some, or migrate --all"}
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
