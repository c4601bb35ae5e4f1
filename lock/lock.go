// Package lock is the file vmcp.lock: what the backends of a configuration offer, as somebody
// has reviewed it. Serving holds the backends to it, and checks of scripts read it offline.
//
//	f, err := lock.Read("vmcp.lock")
//	changes := lock.Compare(f, now)
//	err = lock.Update("vmcp.lock", func(f *lock.File) error { f.Take(now, names); return nil })
//
// The file is made for Git: the same offer gives the same bytes, in whatever order and however
// the backends wrote it, and a change of it is what a model will read differently. It holds
// definitions as backends send them, before the configuration's prefixes, overrides and filters,
// and nothing of the configuration itself.
package lock

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Kind is what an entry is.
type Kind string

// The kinds of entries, and the instructions of a backend.
const (
	Tool         Kind = "tool"
	Prompt       Kind = "prompt"
	Resource     Kind = "resource"
	Template     Kind = "template"
	Instructions Kind = "instructions"
)

// Name is the name of an entry in the file, or of a backend's instructions, whose Own is "".
type Name struct {
	Kind    Kind
	Backend string
	Own     string // as the backend has it: a name, a URI or the text of a template
}

// String is backend.own for a tool, kind:backend.own for the others, and for instructions the
// name of the backend.
func (n Name) String() string {
	switch n.Kind {
	case Instructions:
		return n.Backend
	case Tool:
		return n.Backend + "." + n.Own
	}
	return string(n.Kind) + ":" + n.Backend + "." + n.Own
}

// ParseName reads what String writes. The first dot divides: no backend has one in its name.
func ParseName(text string) (Name, error) {
	n := Name{Kind: Tool}
	rest := text
	for _, k := range []Kind{Prompt, Resource, Template} {
		if after, ok := strings.CutPrefix(text, string(k)+":"); ok {
			n.Kind, rest = k, after
			break
		}
	}
	backend, own, dot := strings.Cut(rest, ".")
	if !dot && n.Kind == Tool {
		n.Kind = Instructions
	}
	n.Backend, n.Own = backend, own
	if backend == "" || n.Kind != Instructions && own == "" {
		return Name{}, fmt.Errorf("want backend.tool, prompt:backend.name, resource:backend.uri, template:backend.text, or a backend for its instructions; have %q", text)
	}
	return n, nil
}

// File is what a vmcp.lock holds.
type File struct {
	Backends map[string]Backend // by name
	Entries  map[Name]Entry
}

// Backend is what a backend says of itself.
type Backend struct {
	Instructions string // the text
	Revision     string // of MCP
	Server       string // its name and version
}

// Entry is one definition, canonical and without what is not pinned.
type Entry struct {
	Definition []byte
	SHA256     string // hexadecimal, over Definition
}

// New is a file without entries.
func New() *File { return &File{Backends: map[string]Backend{}, Entries: map[Name]Entry{}} }

// Add adds a definition as a backend sent it. What a backend offers twice must be the same twice:
// which of the two is meant, nobody can tell.
func (f *File) Add(n Name, raw []byte) error {
	definition, err := Definition(raw)
	if err != nil {
		return fmt.Errorf("%s: definition: %w", n, err)
	}
	e := Entry{Definition: definition, SHA256: Sum(definition)}
	if there, twice := f.Entries[n]; twice && there.SHA256 != e.SHA256 {
		return fmt.Errorf("%s: offered twice, with different definitions", n)
	}
	f.Entries[n] = e
	return nil
}

// Has reports whether anything of a backend is pinned.
func (f *File) Has(backend string) bool {
	if _, ok := f.Backends[backend]; ok {
		return true
	}
	for n := range f.Entries {
		if n.Backend == backend {
			return true
		}
	}
	return false
}

// Holds reports whether an entry, or what a backend says of itself, is in the file.
func (f *File) Holds(n Name) bool {
	if n.Kind == Instructions {
		_, ok := f.Backends[n.Backend]
		return ok
	}
	_, ok := f.Entries[n]
	return ok
}

// TakeBackend makes what f has of a backend what now has of it.
func (f *File) TakeBackend(now *File, backend string) {
	maps.DeleteFunc(f.Entries, func(n Name, _ Entry) bool { return n.Backend == backend })
	for n, e := range now.Entries {
		if n.Backend == backend {
			f.Entries[n] = e
		}
	}
	f.takeSelf(now, backend)
}

func (f *File) takeSelf(now *File, backend string) {
	if b, ok := now.Backends[backend]; ok {
		f.Backends[backend] = b
	} else {
		delete(f.Backends, backend)
	}
}

// Take makes one entry of f, or what a backend says of itself, what it is in now. What is not
// there any more is gone.
func (f *File) Take(now *File, n Name) {
	if n.Kind == Instructions {
		f.takeSelf(now, n.Backend)
		return
	}
	if e, has := now.Entries[n]; has {
		f.Entries[n] = e
	} else {
		delete(f.Entries, n)
	}
}

// Only is the part of f that a filter wants.
func (f *File) Only(want func(Name) bool) *File {
	part := New()
	for n, e := range f.Entries {
		if want(n) {
			part.Entries[n] = e
		}
	}
	for name, b := range f.Backends {
		if want(Name{Kind: Instructions, Backend: name}) {
			part.Backends[name] = b
		}
	}
	return part
}

// Names are the names of all entries, sorted as the file has them.
func (f *File) Names() []Name {
	names := slices.Collect(maps.Keys(f.Entries))
	slices.SortFunc(names, func(a, b Name) int { return strings.Compare(a.String(), b.String()) })
	return names
}

// Server is how a file names the program of a backend.
func Server(serverInfo []byte) string {
	return strings.TrimSpace(jsonscan.GetString(serverInfo, "name") + " " + jsonscan.GetString(serverInfo, "version"))
}
