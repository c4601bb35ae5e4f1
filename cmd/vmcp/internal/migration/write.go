package migration

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/migrate"
)

func (m *Migration) printEntries(scripts []*migrate.Script) error {
	data, err := migrate.ScriptedTools(scripts)
	if err != nil {
		return err
	}
	_, err = m.Out.Write(data)
	return err
}

// newFile is a file that is to be written.
type newFile struct {
	name  string
	data  []byte
	there bool // existed before, with the same content
	made  bool // by this command
}

// writeAll writes each script into a file, and next to each configuration one that uses them.
// It writes nothing unless all of it can be written: a file that exists has to have the same
// content already.
func (m *Migration) writeAll(sources []*workflowFile, scripts []*migrate.Script) error {
	targets, err := m.targets(sources, scripts)
	if err != nil {
		return err
	}
	if err := m.inTheWay(targets); err != nil {
		return err
	}
	if err := m.create(targets); err != nil {
		return err
	}
	for _, t := range targets {
		fmt.Fprintln(m.Out, t.name)
	}
	return nil
}

// create makes the folder and the files, or none of them.
func (m *Migration) create(targets []*newFile) error {
	folders := missingFolders(m.Write)
	err := os.MkdirAll(m.Write, 0o755)
	for _, t := range targets {
		if err == nil {
			err = t.create()
		}
	}
	if err == nil {
		return nil
	}
	for _, t := range targets {
		t.remove()
	}
	for _, dir := range folders {
		_ = os.Remove(dir) // the error that caused this is reported
	}
	return err
}

// missingFolders are the folders of a path that do not exist, the innermost first.
func missingFolders(dir string) (missing []string) {
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		missing = append(missing, dir)
		dir = filepath.Dir(dir)
	}
}

// targets returns the files to write: a script for each workflow, and the configurations.
func (m *Migration) targets(sources []*workflowFile, scripts []*migrate.Script) (targets []*newFile, err error) {
	from := map[string]*migrate.Script{}
	for _, s := range scripts {
		name := m.scriptFile(s)
		if other := from[name]; other != nil {
			return nil, fmt.Errorf("%s: both %s (%s) and %s (%s) would be written to this file", name, other.Name, other.Pos, s.Name, s.Pos)
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
	return append(targets, &newFile{name: filepath.Join(m.Write, "scripted-tools.yaml"), data: entries}), err
}

func (m *Migration) scriptFile(s *migrate.Script) string {
	return filepath.Join(m.Write, filepath.Base(s.Name)+".star")
}

// rewritten is the new configuration; nil when the workflows are in no configuration.
func (m *Migration) rewritten(src *workflowFile, scripts []*migrate.Script) *newFile {
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

// inTheWay returns an error for what exists with another content, or is not a regular file.
func (m *Migration) inTheWay(targets []*newFile) error {
	var other, odd []string
	for _, t := range targets {
		if _, err := os.Lstat(t.name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		info, err := os.Stat(t.name)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && !info.Mode().IsRegular():
			odd = append(odd, t.name)
			continue
		case err != nil:
			return err
		case info.Size() == int64(len(t.data)):
			data, err := files.Read(t.name, info.Size())
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			t.there = bytes.Equal(data, t.data)
		}
		if !t.there {
			other = append(other, t.name)
		}
	}
	switch {
	case len(odd) > 0:
		return fmt.Errorf("%s: exists and is not a regular file; nothing was written", strings.Join(odd, ", "))
	case len(other) > 0:
		return cli.WithHint(
			fmt.Errorf("%s: exists with other content and is not overwritten; nothing was written", strings.Join(other, ", ")),
			"move it away, or compare it with what the command prints without --write; workflows of one file are migrated by one command",
		)
	}
	return nil
}

// create writes a new file, whole or not at all, so that the command can be run again after it was killed.
func (t *newFile) create() error {
	if t.there {
		return nil
	}
	partial := filepath.Join(filepath.Dir(t.name), fmt.Sprintf(".vmcp.%d.tmp", os.Getpid()))
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(t.data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(partial, t.name) // fails if the name exists
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = os.Rename(partial, t.name) // where the file system has no links
		}
	}
	t.made = err == nil
	_ = os.Remove(partial)
	return err
}

// remove deletes the file if this command has made it.
func (t *newFile) remove() {
	if t.made {
		_ = os.Remove(t.name) // the error that caused this is reported
	}
}
