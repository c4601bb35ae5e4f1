package check

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/vmcp-dev/vmcp/script"
)

// Cache keeps the findings in files for later checks: a file is checked again only when its text, its declaration or
// limits, a file that it loads, or a tool that it names has changed. It belongs to one table of builtins. The zero
// value is empty; it is safe for concurrent use.
type Cache struct {
	// Lean keeps no trees and types: programs that were checked with such a cache have problems only.
	Lean bool

	mu    sync.Mutex
	files map[string][]*kept // guarded by mu; by keyOf, the newest first
	looks int                // guarded by mu
}

// kept is a checked file, with all that its findings depend on.
type kept struct {
	source   Source
	limits   script.Limits // of Options
	loadedBy string
	names    []string // tools from which suggestions were made; nil: none was made
	tools    map[string]answer
	loads    map[[2]string]loaded
	out      *checked
}

// answer is what is known of a tool.
type answer struct {
	tool         Tool
	found, known bool
}

func (a answer) same(b answer) bool {
	return a.found == b.found && a.known == b.known && a.tool.Script == b.tool.Script && bytes.Equal(a.tool.Input, b.tool.Input) &&
		bytes.Equal(a.tool.Output, b.tool.Output) && bytes.Equal(a.tool.Annotations, b.tool.Annotations)
}

// loaded is the result of a load statement.
type loaded struct {
	file script.File
	err  error
}

func (l loaded) same(other loaded) bool {
	if l.err != nil || other.err != nil {
		return l.err != nil && other.err != nil && l.err.Error() == other.err.Error()
	}
	return sameFile(l.file, other.file)
}

func sameFile(a, b script.File) bool {
	return a.Name == b.Name && a.Origin == b.Origin && bytes.Equal(a.Source, b.Source)
}

func (s *Source) same(other *Source) bool {
	return s.Kind == other.Kind && s.Limits == other.Limits && sameFile(s.File, other.File) &&
		slices.EqualFunc(s.Tools, other.Tools, func(a, b Entry) bool { return a.same(&b) })
}

// mostKept bounds the entries for one file: catalogs of sessions may have different tools.
const mostKept = 4

func keyOf(src *Source) string { return src.Origin.File + "\x00" + src.Name }

// Looks returns how many files were checked because they were not cached.
func (c *Cache) Looks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}

// find returns the cached findings of a file, or nil.
func (c *Cache) find(src *Source, s *shared) *checked {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	list := slices.Clone(c.files[keyOf(src)])
	c.mu.Unlock()
	for _, k := range list {
		if k.holds(src, s) {
			return k.out
		}
	}
	return nil
}

// holds reports whether nothing that k depends on has changed.
func (k *kept) holds(src *Source, s *shared) bool {
	if !k.source.same(src) || k.limits != s.o.Limits || k.loadedBy != s.loadedFrom(src.Name) || k.names != nil && !slices.Equal(k.names, s.names) {
		return false
	}
	for name, a := range k.tools {
		if !a.same(s.ask(name)) {
			return false
		}
	}
	for way, l := range k.loads {
		if !l.same(s.read(way[0], way[1])) {
			return false
		}
	}
	return true
}

// keep adds the findings of a file.
func (c *Cache) keep(k *kept) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = map[string][]*kept{}
	}
	c.looks++
	key := keyOf(&k.source)
	list := append([]*kept{k}, c.files[key]...)
	c.files[key] = list[:min(len(list), mostKept)]
}

// forget removes the files that are not among sources.
func (c *Cache) forget(sources []Source) {
	if c == nil {
		return
	}
	now := map[string]bool{}
	for i := range sources {
		now[keyOf(&sources[i])] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.files {
		if !now[key] {
			delete(c.files, key)
		}
	}
}

// loadsOf returns the names that a file loads, "file.star name" each.
func (c *Cache) loadsOf(src *Source) []string {
	if c != nil {
		c.mu.Lock()
		list := c.files[keyOf(src)]
		c.mu.Unlock()
		for _, k := range list {
			if bytes.Equal(k.source.Source, src.Source) {
				return k.out.loads
			}
		}
	}
	return loadsIn(src)
}

// ask returns what is known of a tool.
func (s *shared) ask(name string) answer {
	if s.o.Tools == nil {
		return answer{}
	}
	t, ok := s.o.Tools[name]
	if !ok {
		return answer{known: s.o.Unknown == nil || !s.o.Unknown(name)}
	}
	return answer{t, true, true}
}

// read returns the file that another one loads, once for a check.
func (s *shared) read(from, name string) loaded {
	way := [2]string{from, name}
	s.mu.Lock()
	l, ok := s.texts[way]
	s.mu.Unlock()
	if ok {
		return l
	}
	l.file, l.err = s.o.Load(from, name)
	s.mu.Lock()
	s.texts[way] = l
	s.mu.Unlock()
	return l
}

// needs collects what the findings of one file depend on.
type needs struct {
	shared *shared
	tools  map[string]answer
	loads  map[[2]string]loaded
	names  []string
}

// ask is shared.ask, and adds the answer.
func (n *needs) ask(name string) {
	if _, ok := n.tools[name]; ok {
		return
	}
	a := n.shared.ask(name)
	n.tools[name] = a
	if !a.found && a.known {
		n.names = n.shared.names
	}
}

func (n *needs) read(from, name string) loaded {
	l := n.shared.read(from, name)
	n.loads[[2]string{from, name}] = l
	return l
}

// loadedFrom returns which names are loaded from a file, as one text.
func (s *shared) loadedFrom(file string) string {
	var names []string
	for key := range s.loadedBy {
		if module, _, _ := strings.Cut(key, " "); isModule(file, module) {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}

// isModule reports whether a load statement may name a file.
func isModule(file, module string) bool { return file == module || strings.HasSuffix(file, "/"+module) }
