package author

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
	"github.com/vmcp-dev/vmcp/script/format"
)

// This part of the package formats the files that a person names: scripts, folders of them, and the
// scripts inside of configurations.

// UsageError is a path that is not there, or is nothing that can be formatted.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// result is the result for one file.
type result struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Diff    string `json:"diff,omitempty"` // unified, where the file is not written

	Problems diag.Problems `json:"-"`
	Err      error         `json:"-"` // why the file could not be read, written or formatted
}

// formatFiles returns the files that paths name, each once: the files among them, and the files in their
// folders, at any depth, that end in .star. The error is a UsageError for a path that is not there or is neither.
func formatFiles(paths []string) (found []string, err error) {
	seen := map[string]bool{}
	add := func(path string) {
		if real, err := filepath.EvalSymlinks(path); err == nil && !seen[real] {
			seen[real] = true
			found = append(found, path)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, UsageError("there is no " + path)
		case err != nil:
			return nil, err
		case info.IsDir():
			if err := formattedBelow(path, add); err != nil {
				return nil, err
			}
		case isYAML(path) || isScript(path):
			add(path)
		default:
			return nil, UsageError(path + ": want a .star or .yaml file, or a folder")
		}
	}
	return found, nil
}

// formattedBelow calls add with the scripts in a folder, at any depth, but not in hidden folders.
func formattedBelow(dir string, add func(string)) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case isScript(path) && !d.IsDir():
			add(path)
		}
		return nil
	})
}

func isScript(path string) bool { return filepath.Ext(path) == ".star" }

func isYAML(path string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path))
}

// named returns a configuration file and all scripts that it names.
func named(path string) ([]string, error) {
	data, err := config.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cfg, problems := config.Read(path, data)
	if cfg == nil {
		return nil, problems
	}
	paths := []string{path}
	for _, t := range cfg.ScriptedTools {
		paths = append(paths, t.ScriptFile)
	}
	paths = append(paths, cfg.Scripts...)
	for _, l := range cfg.Libraries {
		paths = append(paths, l.Path)
	}
	return formatFiles(slices.DeleteFunc(paths, func(p string) bool { return p == "" }))
}

// formatFile formats one file in place, atomically and with the mode that it has; with checkOnly it
// writes nothing. A file with problems is not changed.
func formatFile(path string, checkOnly bool) result {
	r := result{File: diag.File(path)}
	data, err := files.Read(path, config.MaxFile)
	if err != nil {
		r.Err = fmt.Errorf("%s: %w", r.File, files.Cause(err))
		return r
	}
	out := r.text(path, data)
	if !r.Changed {
		return r
	}
	if checkOnly {
		r.Diff = string(diff.Diff(r.File, data, r.File, out))
		return r
	}
	if err := replace(path, out); err != nil {
		r.Err, r.Changed = fmt.Errorf("%s: %w", r.File, files.Cause(err)), false
	}
	return r
}

// formatText formats a text that is in no file.
func formatText(name string, data []byte, checkOnly bool) (result, []byte) {
	r := result{File: diag.File(name)}
	out := r.text(name, data)
	if r.Changed && checkOnly {
		r.Diff = string(diff.Diff(r.File, data, r.File, out))
	}
	return r, out
}

// text formats a text, and notes in the result whether it changed and its problems.
func (r *result) text(path string, data []byte) []byte {
	out, err := formatted(path, data)
	var found script.Errors
	switch {
	case errors.As(err, &r.Problems):
		return nil
	case errors.As(err, &found):
		for _, e := range found {
			r.Problems = append(r.Problems, problem(r.File, e))
		}
		return nil
	case err != nil:
		r.Err = err
		return nil
	}
	r.Changed = string(out) != string(data)
	return out
}

func formatted(path string, data []byte) ([]byte, error) {
	if !isYAML(path) {
		return format.Format(script.File{Name: diag.File(path), Source: data})
	}
	if cfg, problems := config.Read(path, data); cfg == nil {
		return nil, problems
	}
	return format.FormatYAML(path, data)
}

func problem(file string, e *script.Error) diag.Problem {
	if errors.Is(e, format.ErrUnplaced) {
		return diag.Problem{Pos: diag.Pos{File: file, Line: int(e.Pos.Line), Column: int(e.Pos.Col)}, Code: "layout", Message: e.Msg}
	}
	return check.Problem(script.File{Name: e.Pos.Filename()}, "syntax", e)
}

// replace writes a file by rename; a symbolic link stays, and its target is replaced. A file without write
// permission is not replaced.
func replace(path string, data []byte) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(real, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return files.Replace(real, data)
}
