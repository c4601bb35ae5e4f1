package script

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/script/internal/tree"
)

// loader compiles a file and what it loads, each file once.
type loader struct {
	program *Program
	load    func(from, name string) (File, error)
	inspect func(*syntax.File) error
	entries bool // Options.Entries
	size    int
}

// file compiles f; chain are the files that are being loaded, outermost first.
func (l *loader) file(f File, chain []string) (*file, error) {
	parsed, err := Parse(f, l.program.limits)
	if err != nil {
		return nil, err
	}
	l.size += len(f.Source)
	if limit := l.program.limits.Program; l.size > int(limit) {
		return nil, reached("program", limit)
	}
	out := &file{name: f.Name, source: f, tree: parsed, loads: map[string]string{}, hash: digest([]byte(f.Name), f.Source)}
	if len(chain) == 0 && !l.entries {
		var wrong *Error
		if out.run, wrong = entryOf(parsed); wrong != nil {
			return nil, wrong
		}
	}
	chain = append(chain[:len(chain):len(chain)], f.Name)
	if l.entries && len(chain) == 1 {
		loadPrivate(out.tree.Stmts)
	}
	for _, s := range tree.Loads(out.tree.Stmts) {
		if err := l.loadStmt(out, s, chain); err != nil {
			return nil, err
		}
	}
	return out, l.compile(out)
}

// loadStmt compiles what one load statement names.
func (l *loader) loadStmt(from *file, s *syntax.LoadStmt, chain []string) error {
	name := s.ModuleName()
	fail := func(err error) error {
		if placed(err) {
			return err
		}
		return &Error{Msg: fmt.Sprintf("load %q: %v", name, err), Pos: s.Module.TokenPos, Err: err}
	}
	if l.load == nil {
		return fail(errors.New("there are no libraries to load from"))
	}
	f, err := l.load(from.name, name)
	if err != nil {
		return fail(err)
	}
	from.loads[name] = f.Name
	for i, c := range chain {
		if c == f.Name {
			cycle := append(chain[i:len(chain):len(chain)], f.Name)
			return fail(fmt.Errorf("cycle: %s", strings.Join(cycle, " → ")))
		}
	}
	if _, ok := l.program.files[f.Name]; ok {
		return nil
	}
	if depth := l.program.limits.LoadDepth; len(chain) > depth {
		return fail(&LimitError{Limit: "loadDepth", Value: fmt.Sprint(depth)})
	}
	lib, err := l.file(f, chain)
	if err != nil {
		return fail(err)
	}
	l.program.files[f.Name] = lib
	return nil
}

// placed reports whether an error says where in a file it is.
func placed(err error) bool {
	var one *Error
	return errors.As(compileErrors(err), &one) && one.Pos.IsValid()
}

// hash covers every file of the program.
func (l *loader) hash() string {
	names := make([]string, 0, len(l.program.files))
	for name := range l.program.files {
		names = append(names, name)
	}
	sort.Strings(names)
	parts := [][]byte{[]byte(l.program.main.hash)}
	for _, name := range names {
		parts = append(parts, []byte(l.program.files[name].hash))
	}
	return digest(parts...)
}

// Library loads files for scripts from texts and folders. Names are relative to the
// library, whoever loads: "helpers.star", "lib/text.star".
type Library struct {
	// Inline are files by name. They go before folders.
	Inline map[string]string
	// Dirs are folders, tried in order. Nothing outside of them is read, symbolic links included.
	Dirs []string
	// Origins say where inline files stand, by name.
	Origins map[string]diag.Origin
}

// maxSource bounds a file that is read; any limit on sources is below, and says so itself.
const maxSource = 16 << 20

// Load finds a file; it is a value for Options.Load.
func (l Library) Load(_, name string) (File, error) {
	if err := checkLoadName(name); err != nil {
		return File{}, err
	}
	if text, ok := l.Inline[name]; ok {
		return File{Name: name, Source: []byte(text), Origin: l.Origins[name]}, nil
	}
	for _, dir := range l.Dirs {
		src, err := files.ReadBelow(dir, name, maxSource)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return File{}, err
		}
		return File{Name: name, Source: src, Origin: diag.InFile(filepath.Join(dir, filepath.FromSlash(name)))}, nil
	}
	return File{}, fmt.Errorf("no such file in the libraries%s", l.places())
}

func (l Library) places() string {
	if len(l.Dirs) == 0 {
		return ""
	}
	return " (" + strings.Join(l.Dirs, ", ") + ")"
}

// Dirs returns a loader of files below folders, for Options.Load.
func Dirs(dirs ...string) func(from, name string) (File, error) {
	return Library{Dirs: dirs}.Load
}

// checkLoadName refuses names that are not plain relative paths.
func checkLoadName(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "\\\x00:"), path.IsAbs(name), path.Clean(name) != name, name == "..", strings.HasPrefix(name, "../"):
		return fmt.Errorf("want a relative name below the library, such as %q", "helpers.star")
	case files.IsTest(name):
		return errors.New("a file *_test.star is a test, and no library")
	case !strings.HasSuffix(name, ".star"):
		return fmt.Errorf("want a name that ends with .star")
	}
	return nil
}
