package script

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// loader compiles a file and the files that it loads, each once.
type loader struct {
	program *compiledProgram
	load    func(from, name string) (File, error)
	inspect func(*syntax.File) error
	entries bool // Options.Entries
	size    int

	functions []string // entry functions of the main file
}

// file compiles f; chain are the files being loaded, outermost first.
func (l *loader) file(f File, chain []string) (*unit, error) {
	parsed, err := Parse(f, l.program.Limits)
	if err != nil {
		return nil, err
	}
	l.size += len(f.Source)
	if limit := l.program.Limits.Program; l.size > int(limit) {
		return nil, &meter.LimitError{Limit: "program", Value: limit.String()}
	}
	out := &unit{Name: f.Name, Source: f, tree: parsed, Loads: map[string]string{}, hash: digest([]byte(f.Name), f.Source)}
	if len(chain) == 0 && !l.entries {
		if err := l.findEntries(out); err != nil {
			return nil, err
		}
	}
	chain = append(chain[:len(chain):len(chain)], f.Name)
	if l.entries && len(chain) == 1 {
		loadPrivate(out.tree.Stmts)
	}
	for _, s := range meter.Loads(out.tree.Stmts) {
		if err := l.loadStmt(out, s, chain); err != nil {
			return nil, err
		}
	}
	return out, l.compile(out)
}

// findEntries finds the entry functions of f.
func (l *loader) findEntries(f *unit) error {
	var wrong Errors
	f.Entries = map[string]syntax.Position{}
	for _, name := range l.functions {
		at, err := EntryOf(f.tree, name)
		if err != nil {
			wrong = append(wrong, err)
		}
		f.Entries[name] = at
	}
	switch len(wrong) {
	case 0:
		return nil
	case 1:
		return wrong[0]
	}
	return wrong
}

// loadStmt compiles the file that a load statement names.
func (l *loader) loadStmt(from *unit, s *syntax.LoadStmt, chain []string) error {
	name := s.ModuleName()
	fail := func(err error) error {
		if placed(err) {
			return err
		}
		return &Error{Msg: fmt.Sprintf("load %q: %v", name, err), Pos: s.Module.TokenPos, Err: err}
	}
	if l.load == nil {
		return fail(errors.New("no libraries to load from are configured"))
	}
	f, err := l.load(from.Name, name)
	if err != nil {
		return fail(err)
	}
	from.Loads[name] = f.Name
	for i, c := range chain {
		if c == f.Name {
			cycle := append(chain[i:len(chain):len(chain)], f.Name)
			return fail(fmt.Errorf("cycle: %s", strings.Join(cycle, " → ")))
		}
	}
	if _, ok := l.program.Files[f.Name]; ok {
		return nil
	}
	if depth := l.program.Limits.LoadDepth; len(chain) > depth {
		return fail(&meter.LimitError{Limit: "loadDepth", Value: fmt.Sprint(depth)})
	}
	lib, err := l.file(f, chain)
	if err != nil {
		return fail(err)
	}
	l.program.Files[f.Name] = lib
	return nil
}

// hash returns the hash of all files of the program.
func (l *loader) hash() string {
	names := make([]string, 0, len(l.program.Files))
	for name := range l.program.Files {
		names = append(names, name)
	}
	sort.Strings(names)
	parts := [][]byte{[]byte(l.program.Main.hash)}
	for _, name := range names {
		parts = append(parts, []byte(l.program.Files[name].hash))
	}
	return digest(parts...)
}
