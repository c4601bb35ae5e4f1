package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/verify"
)

// migration is what migrate-composite was asked to do.
type migration struct {
	*app
	file, style, output, dir, cases string
	all, fix                        bool
}

func (a *app) migrate() *cobra.Command {
	m := &migration{app: a}
	c := &cobra.Command{
		Use:   "migrate-composite [NAME...]",
		Short: "turn legacy YAML workflows into scripts",
		Long: `Migrate-composite reads workflows in ToolHive's YAML format from a configuration with
compositeTools, from one definition or from Kubernetes manifests, and prints each as a script.

The exact style does what the legacy engine did, quirks included; the clean style is what a
person would have written. What deserves a human's eye goes to standard error and into
comments, with its place in the YAML.`,
		Example: `  vmcp migrate-composite deploy --style clean
  vmcp migrate-composite -f composites.yaml --all --output scripted-tools
  vmcp migrate-composite --all --write scripts
  vmcp migrate-composite --verify cases/`,
	}
	f := c.Flags()
	f.StringVarP(&m.file, "file", "f", defaultFile, "where the workflows are; - is standard input")
	f.BoolVar(&m.all, "all", false, "migrate every workflow of the file")
	f.StringVar(&m.style, "style", string(migrate.Exact), "exact: what the legacy engine did; clean: what a person would have written")
	f.StringVarP(&m.output, "output", "o", "script", "what is printed: script, or scripted-tools for entries of a configuration")
	f.StringVar(&m.dir, "write", "", "write the scripts into this folder, and the configuration that uses them next to the old one")
	f.BoolVar(&m.fix, "fix", false, "migrate what a definition means where the legacy engine refused it")
	f.StringVar(&m.cases, "verify", "", "run recorded cases (a file or a folder) against the scripts and show what differs")
	c.RunE = func(c *cobra.Command, names []string) error {
		if err := m.check(); err != nil {
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
func (m *migration) check() error {
	switch {
	case m.style != string(migrate.Exact) && m.style != string(migrate.Clean):
		return usageError("--style: want exact or clean, have " + m.style)
	case m.output != "script" && m.output != "scripted-tools":
		return usageError("--output: want script or scripted-tools, have " + m.output)
	}
	return nil
}

func (m *migration) run(names []string) error {
	data, err := m.read()
	if err != nil {
		return err
	}
	scripts, err := m.scripts(data, names)
	if err != nil {
		return err
	}
	for _, s := range scripts {
		for _, n := range s.Notes {
			m.say("%s", n)
		}
	}
	switch {
	case m.dir != "":
		return m.write(data, scripts)
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

func (m *migration) read() ([]byte, error) {
	if m.file != "-" {
		data, err := os.ReadFile(m.file)
		if errors.Is(err, os.ErrNotExist) {
			return nil, &hintError{fmt.Errorf("%s: no such file", m.file), "-f names the file with the workflows"}
		}
		return data, err
	}
	data, err := io.ReadAll(m.in)
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	return data, nil
}

// name is the name of the file in messages.
func (m *migration) name() string {
	if m.file == "-" {
		return "<stdin>"
	}
	return m.file
}

// scripts migrates the workflows that are asked for. All problems of all of them are reported.
func (m *migration) scripts(data []byte, names []string) ([]*migrate.Script, error) {
	defs, err := migrate.Parse(m.name(), data)
	if err != nil {
		return nil, err
	}
	if defs, err = m.choose(defs, names); err != nil {
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
	switch {
	case len(names) > 0 && m.all:
		return nil, usageError("want names or --all, not both")
	case len(names) == 0 && (m.all || len(defs) == 1):
		return defs, nil
	case len(names) == 0:
		return nil, &hintError{usageError(fmt.Sprintf("%s has %d workflows: %s", m.name(), len(defs), strings.Join(known, ", "))),
			"name some, or migrate --all"}
	}
	var chosen []*migrate.Definition
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("%s: no workflow %q, there is %s", m.name(), name, strings.Join(known, ", "))
		}
		chosen = append(chosen, defs[i])
	}
	return chosen, nil
}

func (m *migration) printEntries(scripts []*migrate.Script) error {
	data, err := migrate.ScriptedTools(scripts)
	if err != nil {
		return err
	}
	_, err = m.out.Write(data)
	return err
}

// write puts each script into a file, and the configuration that uses them next to the old
// one. Nothing that is there already is written over.
func (m *migration) write(data []byte, scripts []*migrate.Script) error {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	for _, s := range scripts {
		if err := m.create(m.scriptFile(s), []byte(s.Source)); err != nil {
			return err
		}
	}
	file, config := m.rewritten(data, scripts)
	if config == nil {
		var err error
		if config, err = migrate.ScriptedTools(scripts); err != nil {
			return err
		}
	}
	return m.create(file, config)
}

func (m *migration) scriptFile(s *migrate.Script) string {
	return filepath.Join(m.dir, filepath.Base(s.Name)+".star")
}

// rewritten returns the new configuration; nil when the workflows are in no configuration.
func (m *migration) rewritten(data []byte, scripts []*migrate.Script) (file string, config []byte) {
	relative := func(s *migrate.Script) string {
		path := m.scriptFile(s)
		if rel, err := filepath.Rel(filepath.Dir(m.file), path); err == nil {
			path = rel
		}
		return filepath.ToSlash(path)
	}
	config, err := migrate.Rewrite(data, scripts, relative)
	if err != nil || m.file == "-" {
		return filepath.Join(m.dir, "scripted-tools.yaml"), nil
	}
	ext := filepath.Ext(m.file)
	return strings.TrimSuffix(m.file, ext) + ".migrated" + ext, config
}

// create writes a new file.
func (m *migration) create(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return &hintError{fmt.Errorf("%s: is there already, and is not written over", name), "move it away, or --write into another folder"}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintln(m.out, name)
	return nil
}

// verify runs recorded cases: against their own definitions, or against one of the file.
func (m *migration) verify(ctx context.Context, given bool, names []string) error {
	cases, err := verify.Load(m.cases)
	if err != nil {
		return err
	}
	var chosen *migrate.Script
	if given {
		data, err := m.read()
		if err != nil {
			return err
		}
		scripts, err := m.scripts(data, names)
		if err != nil {
			return err
		}
		chosen = scripts[0]
	}
	w := tabwriter.NewWriter(m.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CASE\tRESULT\tWHAT\tHAVE\tWANT")
	differ := 0
	for _, c := range cases {
		if row := m.verifyCase(ctx, w, c, chosen); row {
			differ++
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if differ > 0 {
		return fmt.Errorf("%d of %d cases differ", differ, len(cases))
	}
	return nil
}

// verifyCase runs one case, writes its rows and reports whether it differs.
func (m *migration) verifyCase(ctx context.Context, w io.Writer, c verify.Case, s *migrate.Script) bool {
	var have verify.Outcome
	var err error
	if s == nil {
		have, err = c.Run(ctx)
	} else {
		have, err = c.RunScript(ctx, s)
	}
	diffs := verify.Compare(have, c.Want)
	switch {
	case err != nil:
		fmt.Fprintf(w, "%s\tbroken\t%s\t\t\n", c.Name, oneLine(err.Error()))
		return true
	case len(diffs) == 0:
		fmt.Fprintf(w, "%s\tsame\t\t\t\n", c.Name)
		return false
	case c.Exception() != "":
		fmt.Fprintf(w, "%s\tmeant\t%s\t\t\n", c.Name, c.Exception())
		return false
	}
	for _, d := range diffs {
		fmt.Fprintf(w, "%s\tdiffers\t%s\t%s\t%s\n", c.Name, d.What, oneLine(d.Have), oneLine(d.Want))
	}
	return true
}

// oneLine shortens a text to what a table has room for.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	const most = 100
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
