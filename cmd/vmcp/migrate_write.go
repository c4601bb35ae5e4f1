package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate"
)

func (m *migration) printEntries(scripts []*migrate.Script) error {
	data, err := migrate.ScriptedTools(scripts)
	if err != nil {
		return err
	}
	_, err = m.out.Write(data)
	return err
}

// newFile is a file that write makes.
type newFile struct {
	name    string
	data    []byte
	written bool
}

// write puts each script into a file, and next to each configuration one that uses them.
// Nothing is written unless everything can be: a file that is there has to have the same
// content already.
func (m *migration) write(sources []*workflowFile, scripts []*migrate.Script) error {
	targets, err := m.targets(sources, scripts)
	if err != nil {
		return err
	}
	if err := m.inTheWay(targets); err != nil {
		return err
	}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	for _, t := range targets {
		if err := t.create(); err != nil {
			for _, made := range targets {
				made.remove()
			}
			return err
		}
	}
	for _, t := range targets {
		fmt.Fprintln(m.out, t.name)
	}
	return nil
}

// targets are the files to write: a script for each workflow, and the configurations.
func (m *migration) targets(sources []*workflowFile, scripts []*migrate.Script) (targets []*newFile, err error) {
	from := map[string]*migrate.Script{}
	for _, s := range scripts {
		name := m.scriptFile(s)
		if other := from[name]; other != nil {
			return nil, fmt.Errorf("%s: both %s (%s) and %s (%s) would be written there", name, other.Name, other.Pos, s.Name, s.Pos)
		}
		from[name] = s
		targets = append(targets, &newFile{name: name, data: []byte(s.Source)})
	}
	var rest []*migrate.Script // of manifests, definitions and standard input
	for _, src := range sources {
		own := slices.DeleteFunc(slices.Clone(scripts), func(s *migrate.Script) bool { return s.Pos.File != src.name })
		if len(own) == 0 {
			continue
		}
		if config := m.rewritten(src, own); config != nil {
			targets = append(targets, config)
		} else {
			rest = append(rest, own...)
		}
	}
	if len(rest) == 0 {
		return targets, nil
	}
	entries, err := migrate.ScriptedTools(rest)
	return append(targets, &newFile{name: filepath.Join(m.dir, "scripted-tools.yaml"), data: entries}), err
}

func (m *migration) scriptFile(s *migrate.Script) string {
	return filepath.Join(m.dir, filepath.Base(s.Name)+".star")
}

// rewritten is the new configuration; nil when the workflows are in no configuration.
func (m *migration) rewritten(src *workflowFile, scripts []*migrate.Script) *newFile {
	relative := func(s *migrate.Script) string {
		path := m.scriptFile(s)
		if rel, err := filepath.Rel(filepath.Dir(src.name), path); err == nil {
			path = rel
		}
		return filepath.ToSlash(path)
	}
	config, err := migrate.Rewrite(src.data, scripts, relative)
	if err != nil || src.name == "<stdin>" {
		return nil
	}
	ext := filepath.Ext(src.name)
	return &newFile{name: strings.TrimSuffix(src.name, ext) + ".migrated" + ext, data: config}
}

// inTheWay refuses files that are there with another content.
func (m *migration) inTheWay(targets []*newFile) error {
	var names []string
	for _, t := range targets {
		data, err := os.ReadFile(t.name)
		if err == nil && !bytes.Equal(data, t.data) {
			names = append(names, t.name)
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &hintError{
		fmt.Errorf("%s: there already with another content, and not written over; nothing was written", strings.Join(names, ", ")),
		"move it away, or compare it with what the command prints without --write; workflows of one file are migrated by one command",
	}
}

// create writes a new file; one that is there already has the same content.
func (t *newFile) create() error {
	f, err := os.OpenFile(t.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	t.written = true
	_, err = f.Write(t.data)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

// remove takes back what was written.
func (t *newFile) remove() {
	if t.written {
		_ = os.Remove(t.name) // the error that led here is told
	}
}
