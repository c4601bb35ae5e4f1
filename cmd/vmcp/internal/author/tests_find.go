package author

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/script"
)

const (
	maxTests      = 10_000   // files of tests
	testMaxSource = 16 << 20 // of one file; a script over limits.source gets a problem of its own
)

// found is the tests and cases to run.
type found struct {
	tests []script.File
	cases []string
	names map[string]bool
}

// find finds the tests in paths, or without paths all tests of a configuration.
func find(cfg *config.Config, paths []string) (*found, error) {
	f := &found{names: map[string]bool{}}
	if len(paths) == 0 {
		dirs := folders(cfg)
		for _, dir := range dirs {
			if err := f.below(dir); err != nil {
				return nil, err
			}
		}
		return f, f.findCases(append(dirs, inlineFolders(cfg)...))
	}
	for _, path := range paths {
		if err := f.named(path); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// folders returns the folders of a configuration's scripts and libraries, each once.
func folders(cfg *config.Config) (dirs []string) {
	add := func(dir string) {
		if !slices.Contains(dirs, filepath.Clean(dir)) {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	for _, dir := range cfg.Scripts {
		add(dir)
	}
	for _, l := range cfg.Libraries {
		if l.Path != "" {
			add(l.Path)
		}
	}
	for _, t := range cfg.ScriptedTools {
		if t.ScriptFile != "" {
			add(filepath.Dir(t.ScriptFile))
		}
	}
	return dirs
}

// inlineFolders returns the folders of configurations with inline scripts: the cases of those scripts are there.
func inlineFolders(cfg *config.Config) (dirs []string) {
	for i, t := range cfg.ScriptedTools {
		if t.Script == "" {
			continue
		}
		if file := cfg.Origin(fmt.Sprintf("scriptedTools[%d].script", i)).File; file != "" && !strings.HasPrefix(file, "<") {
			if dir, err := filepath.Abs(filepath.Dir(file)); err == nil { // absolute, as those of Folders are
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

func (f *found) named(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Error("there is no " + path)
	case err != nil:
		return cli.Error(err.Error())
	case info.IsDir():
		if err := f.below(path); err != nil {
			return err
		}
		return f.findCases([]string{path})
	case files.IsTest(path):
		return f.test(path)
	case strings.HasSuffix(path, ".json"):
		f.cases = append(f.cases, path)
		return nil
	}
	return cli.Error(path + " is not a test: want a file *_test.star, a recorded case *.json, or a folder")
}

// below finds the files of tests in a folder, at any depth.
func (f *found) below(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == dir && errors.Is(err, fs.ErrNotExist):
			return nil // the configuration has a problem of its own for it
		case err != nil:
			return err
		case strings.HasPrefix(d.Name(), ".") && name != dir:
			if d.IsDir() {
				return fs.SkipDir
			}
		case len(f.tests) == maxTests:
			return fs.SkipAll
		case !d.IsDir() && files.IsTest(name):
			return f.test(name)
		}
		return nil
	})
}

func (f *found) test(name string) error {
	if f.names[name] {
		return nil
	}
	f.names[name] = true
	source, err := files.ReadBelow(filepath.Dir(name), filepath.Base(name), testMaxSource)
	if err != nil {
		return err
	}
	f.tests = append(f.tests, script.File{Name: name, Source: source, Origin: diag.InFile(name)})
	return nil
}

func (f *found) findCases(dirs []string) error {
	all, err := cases.Find(dirs...)
	f.cases = append(f.cases, all...)
	return err
}
