package catalog

import (
	"maps"
	"strings"
	"sync"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
)

// bundles finds what scripts of bundles load: first texts of the bundle, then libraries.
type bundles struct {
	// Libraries finds the files of libraries.
	Libraries Load

	mu     sync.Mutex
	loaded map[string]script.File // by name; guarded by mu
}

// bundlePrefix begins the names of files of bundles; names of libraries cannot begin so.
const bundlePrefix = "configmap:"

// fileOf is the name of a text of a bundle.
func fileOf(b *config.Bundle, name string) string { return bundlePrefix + b.Name + "/" + name }

// sameBundle reports whether two bundles have the same texts.
func sameBundle(a, b *config.Bundle) bool {
	return a == b || a != nil && b != nil && a.Name == b.Name && maps.Equal(a.Texts, b.Texts)
}

// find finds a text of the bundle that contains the file from.
func (b *bundles) find(of *config.Bundle, from, name string) (script.File, bool) {
	if of == nil || !strings.HasPrefix(from, fileOf(of, "")) {
		return script.File{}, false
	}
	text, ok := of.Texts[name]
	if !ok {
		return script.File{}, false
	}
	f := script.File{Name: fileOf(of, name), Source: []byte(text), Origin: diag.Origin{Pos: diag.Pos{File: of.Name + "/" + name, Line: 1, Column: 1}, Exact: true}}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loaded == nil {
		b.loaded = map[string]script.File{}
	}
	b.loaded[f.Name] = f
	return f, true
}

// Loader is a loader for all tools. If a bundle occurs in two versions, it uses one of them.
func (b *bundles) Loader(tools []config.ScriptedTool) Load {
	known := map[string]*config.Bundle{}
	for i := range tools {
		if t := tools[i].Bundle; t != nil {
			known[t.Name] = t
		}
	}
	if len(known) == 0 {
		return b.Libraries
	}
	return func(from, name string) (script.File, error) {
		rest, _ := strings.CutPrefix(from, bundlePrefix)
		bundle, _, _ := strings.Cut(rest, "/")
		if f, ok := b.find(known[bundle], from, name); ok {
			return f, nil
		}
		return b.Libraries(from, name)
	}
}

// LoadFor is the loader for a tool of a bundle, with that version of it.
func (b *bundles) LoadFor(of *config.Bundle) Load {
	return func(from, name string) (script.File, error) {
		if f, ok := b.find(of, from, name); ok {
			return f, nil
		}
		return b.Libraries(from, name)
	}
}

// FileAt is the text of a bundle in which an error of the interpreter occurred, or other.
func (b *bundles) FileAt(e *script.Error, other script.File) script.File {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.loaded {
		if f.Has(e.Pos) {
			return f
		}
	}
	return other
}
