package scripttests

import (
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/source"
)

// ReachOf finds which files each file of tests uses: what it loads, and the scripts of the tools that it
// names in testing.run, with what they load and call. Where anything cannot be read, it is nil.
func ReachOf(configFile string, paths []string) Reach {
	cfg, err := config.Load(configFile)
	if err != nil {
		return Reach{}
	}
	found, err := find(cfg, paths)
	if err != nil {
		return Reach{}
	}
	r := &runner{Options: Options{Config: cfg}}
	r.scripts, _ = catalog.Compile(cfg)
	tools := map[string]*script.Program{}
	for _, t := range r.scripts.Tools() {
		tools[t.Name] = t.Program
	}
	reach := Reach{}
	for _, f := range found.tests {
		w := &walk{r: r, tools: tools, seen: map[string]bool{}, named: map[string]bool{}}
		w.file(f)
		reach[clean(f.Origin.File)] = w.seen
	}
	return reach
}

// walk collects the files that one file of tests uses.
type walk struct {
	r     *runner
	tools map[string]*script.Program
	seen  map[string]bool // files
	named map[string]bool // tools
}

// file notes a file, what it loads, and the tools whose names stand in it.
func (w *walk) file(f script.File) {
	name := clean(f.Origin.File)
	if w.seen[name] {
		return
	}
	w.seen[name] = true
	tree, err := source.Parse(f, script.Limits{})
	if err != nil {
		return
	}
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.LoadStmt:
			if loaded, err := w.r.load(f.Name, n.ModuleName()); err == nil {
				w.file(loaded)
			}
		case *syntax.Literal:
			if text, ok := n.Value.(string); ok && n.Token == syntax.STRING {
				w.tool(text)
			}
		}
		return true
	})
}

// tool notes the script of a tool.
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
