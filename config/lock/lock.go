// Package lock reads, compares and writes the file vmcp.lock: the reviewed definitions of the tools, prompts and
// resources of a configuration's backends. Serving pins the backends to it, and checks of scripts read it offline.
//
//	f, err := lock.Read("vmcp.lock")
//	changes := lock.Compare(f, now)
//	err = lock.Update("vmcp.lock", func(f *lock.File) error { f.Take(now, names); return nil })
//
// The file is made for Git: the same definitions give the same bytes, in whatever order and JSON spelling
// the backends send them, so that a diff shows only changes of meaning. It has the
// definitions that backends send, before the configuration's prefixes, overrides and filters,
// and nothing of the configuration itself.
package lock

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Kind is the kind of an entry.
type Kind string

// The kinds of entries, and the instructions of a backend.
const (
	Tool         Kind = "tool"
	Prompt       Kind = "prompt"
	Resource     Kind = "resource"
	Template     Kind = "template"
	Instructions Kind = "instructions"
)

// Name is the name of an entry in the file, or, with an empty Own, of a backend's instructions.
type Name struct {
	Kind    Kind
	Backend string
	Own     string // the backend's name: a name, a URI or a URI template
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

// ParseName parses the text that String returns. The backend ends at the first dot: names of backends have none.
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

// File is the content of a vmcp.lock.
type File struct {
	Backends map[string]Backend // by name
	Entries  map[Name]Entry
}

// Backend is the server information of a backend.
type Backend struct {
	Instructions string // the text
	Revision     string // of MCP
	Server       string // its name and version
}

// Entry is one definition, in canonical form and without the members that are not pinned.
type Entry struct {
	Definition []byte
	SHA256     string // hexadecimal, of Definition
}

// New is a file without entries.
func New() *File { return &File{Backends: map[string]Backend{}, Entries: map[Name]Entry{}} }

// Add adds a definition of a backend. A duplicate has to have the same definition: with two different ones, it is
// ambiguous which one calls would use.
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

// Has reports whether the file has server information or an entry of a backend.
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

// Holds reports whether an entry, or the server information of a backend, is in the file.
func (f *File) Holds(n Name) bool {
	if n.Kind == Instructions {
		_, ok := f.Backends[n.Backend]
		return ok
	}
	_, ok := f.Entries[n]
	return ok
}

// TakeBackend replaces all entries and the server information of a backend by those of now.
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

// Take replaces one entry of f, or the server information of a backend, by that of now, and removes it when now has
// none.
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

// Only returns the part of f for whose names want returns true.
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

// Names are the names of all entries, in the order of the file.
func (f *File) Names() []Name {
	names := slices.Collect(maps.Keys(f.Entries))
	slices.SortFunc(names, func(a, b Name) int { return strings.Compare(a.String(), b.String()) })
	return names
}

// Server returns the name and version of serverInfo, in the form of the file.
func Server(serverInfo []byte) string {
	return strings.TrimSpace(jsonscan.GetString(serverInfo, "name") + " " + jsonscan.GetString(serverInfo, "version"))
}
