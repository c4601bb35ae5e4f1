package author

import (
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/script"
)

// ReachOf finds the scripts that each file of tests uses: what it loads, and the scripts of the tools that it
// names in strings, with what they load and call. It is nil where the configuration, a script or a test cannot be read:
// any change may mend that.
func ReachOf(configFile string, paths []string) Reach {
	cfg, err := config.Load(configFile)
	if err != nil {
		return nil
	}
	found, err := find(cfg, paths)
	if err != nil {
		return nil
	}
	r := &runner{TestOptions: TestOptions{Config: cfg}}
	scripts, problems := catalog.Compile(cfg, catalog.Known{})
	if len(problems) > 0 {
		return nil
	}
	r.scripts = scripts
	tools := map[string]*script.Program{}
	for _, t := range r.scripts.Tools() {
		tools[t.Name] = t.Program
	}
	reach := Reach{}
	for _, f := range found.tests {
		w := &walk{r: r, tools: tools, seen: map[string]bool{}, named: map[string]bool{}}
		if w.file(f); w.unread {
			return nil
		}
		reach[clean(f.Origin.File)] = w.seen
	}
	return reach
}

// walk collects the scripts that one file of tests uses.
type walk struct {
	r     *runner
	tools map[string]*script.Program
	seen  map[string]bool // absolute names of files
	named map[string]bool // tools

	unread bool // a file could not be read
}

// file adds a file, what it loads, and the tools whose names are strings in it.
func (w *walk) file(f script.File) {
	name := clean(f.Origin.File)
	if w.seen[name] {
		return
	}
	w.seen[name] = true
	tree, err := script.Parse(f, script.Limits{})
	if err != nil {
		w.unread = true
		return
	}
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.LoadStmt:
			loaded, err := w.r.load(f.Name, n.ModuleName())
			if err != nil {
				w.unread = true
				return false
			}
			w.file(loaded)
		case *syntax.Literal:
			if text, ok := n.Value.(string); ok && n.Token == syntax.STRING {
				w.tool(text)
			}
		}
		return true
	})
}

// tool adds the scripts of a tool.
func (w *walk) tool(name string) {
	p := w.tools[name]
	if p == nil || w.named[name] {
		return
	}
	w.named[name] = true
	for _, f := range p.Files() {
		w.file(f)
	}
}
