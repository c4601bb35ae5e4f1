// Package formatter formats the files that a person names: scripts, folders of them, and the
// scripts inside of configurations.
package formatter

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
	"github.com/vmcp-dev/vmcp/internal/starfmt"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// UsageError is a path that cannot be formatted at all.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// Result is what became of one file.
type Result struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Diff    string `json:"diff,omitempty"` // unified, where nothing is written

	Problems diag.Problems `json:"-"`
	Err      error         `json:"-"` // it could not be read, written or formatted
}

// Files are the files that paths mean, each once: the files among them, and those below the
// folders that end in .star. The error is a UsageError for a path that is not there or is neither.
func Files(paths []string) (found []string, err error) {
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
			if err := below(path, add); err != nil {
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

// below calls add with the scripts below a folder, hidden folders left out.
func below(dir string, add func(string)) error {
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

// Named is a configuration file and all scripts that it names.
func Named(path string) ([]string, error) {
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
	return Files(slices.DeleteFunc(paths, func(p string) bool { return p == "" }))
}

// Format formats one file in place, atomically and with the mode that it has; with check it
// writes nothing. A file with problems stays as it is.
func Format(path string, checkOnly bool) Result {
	r := Result{File: diag.File(path)}
	data, err := files.Read(path, config.MaxFile)
	if err != nil {
		r.Err = fmt.Errorf("%s: %w", r.File, cause(err))
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
	if err := Replace(path, out); err != nil {
		r.Err, r.Changed = fmt.Errorf("%s: %w", r.File, cause(err)), false
	}
	return r
}

// Text formats a text that stands in no file.
func Text(name string, data []byte, checkOnly bool) (Result, []byte) {
	r := Result{File: diag.File(name)}
	out := r.text(name, data)
	if r.Changed && checkOnly {
		r.Diff = string(diff.Diff(r.File, data, r.File, out))
	}
	return r, out
}

// text formats a text, and notes whether it changed and what is wrong with it.
func (r *Result) text(path string, data []byte) []byte {
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
		return starfmt.Format(script.File{Name: diag.File(path), Source: data})
	}
	if cfg, problems := config.Read(path, data); cfg == nil {
		return nil, problems
	}
	return starfmt.FormatYAML(path, data)
}

func problem(file string, e *script.Error) diag.Problem {
	if errors.Is(e, starfmt.ErrUnplaced) {
		return diag.Problem{Pos: diag.Pos{File: file, Line: int(e.Pos.Line), Column: int(e.Pos.Col)}, Code: "layout", Message: e.Msg}
	}
	return check.Problem(script.File{Name: e.Pos.Filename()}, "syntax", e)
}

// Replace writes a file by rename, through a symbolic link to where it leads. What may not be
// written is not replaced either.
func Replace(path string, data []byte) error {
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

// cause is an error without the path, which stands before it.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
