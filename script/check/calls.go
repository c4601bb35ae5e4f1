package check

import (
	"cmp"
	"slices"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// Calls is what the text of a program shows of the tools that it calls.
type Calls struct {
	// Tools are the literal names in arguments that are names of tools, sorted.
	Tools []string
	// Dynamic says that some name is computed, so that there may be more tools.
	Dynamic bool
}

// Scan reads the files of one program while it is compiled: [Scan.File] is a value for script.Options.Inspect.
type Scan struct {
	builtins table
	calls    Calls
	files    map[string]*scanned // by the name in positions
}

// scanned is what is kept of a file. Its tree is not, since compiling rewrites it.
type scanned struct {
	parts []meter.Part
	calls []Calls // of each part
}

// NewScan returns a scan with a table of builtins.
func NewScan(builtins []Builtin) *Scan {
	return &Scan{builtins: tableOf(builtins), files: map[string]*scanned{}}
}

// Calls returns the tools that the scanned files can call, as far as their text shows them.
func (s *Scan) Calls() Calls {
	return s.calls.sorted()
}

// CallsOf returns the tools that one function of a file can call, with all that it reaches, in other files too; "" is
// run.
func (s *Scan) CallsOf(f script.File, function string) Calls {
	of := s.files[f.Shown()]
	if of == nil {
		return s.Calls()
	}
	var all Calls
	for _, i := range meter.Reached(of.parts, cmp.Or(function, script.SourceRun)) {
		all.add(of.calls[i])
	}
	for _, other := range s.files {
		if other != of {
			for _, c := range other.calls {
				all.add(c)
			}
		}
	}
	return all.sorted()
}

func (c *Calls) add(more Calls) {
	c.Tools = append(c.Tools, more.Tools...)
	c.Dynamic = c.Dynamic || more.Dynamic
}

// sorted returns c with each tool once, sorted.
func (c Calls) sorted() Calls {
	c.Tools = slices.Clone(c.Tools)
	slices.Sort(c.Tools)
	c.Tools = slices.Compact(c.Tools)
	return c
}

// File adds the calls of a file, and refuses questions with forms that no client can show.
func (s *Scan) File(f *syntax.File) error {
	of := &scanned{parts: meter.Parts(f)}
	for i := range of.parts {
		c := s.callsIn(of.parts[i].Stmt)
		of.parts[i].Stmt = nil
		of.calls = append(of.calls, c)
		s.calls.add(c)
	}
	s.files[f.Path] = of
	return s.forms(f)
}

// callsIn returns the calls of tools in a part of a script.
func (s *Scan) callsIn(of syntax.Node) (calls Calls) {
	direct := map[*syntax.Ident]bool{}
	syntax.Walk(of, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			b := s.builtins.called(n)
			if b == nil || b.Tool.Name == "" {
				break
			}
			direct[n.Fn.(*syntax.Ident)] = true
			if name, ok := literalString(b.Tool.of(n)); ok {
				calls.Tools = append(calls.Tools, name)
				break
			}
			calls.Dynamic = true
		case *syntax.Ident:
			// As a value, the function can be called with any name.
			if b := s.builtins[n.Name]; b != nil && b.Tool.Name != "" && !direct[n] {
				calls.Dynamic = true
			}
		}
		return true
	})
	return calls
}

// forms returns an error for a question whose literal schema no client can show.
func (s *Scan) forms(f *syntax.File) error {
	c := &checker{builtins: s.builtins, constants: literalOf(f)}
	syntax.Walk(f, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			c.form(call)
		}
		return true
	})
	var errs script.Errors
	for _, p := range c.found {
		errs = append(errs, &script.Error{Msg: p.Message, Pos: syntax.MakePosition(&p.File, int32(p.Line), int32(p.Column))})
	}
	if errs == nil {
		return nil
	}
	return errs
}

func literalString(e syntax.Expr) (string, bool) {
	lit, ok := e.(*syntax.Literal)
	if !ok {
		return "", false
	}
	s, ok := lit.Value.(string)
	return s, ok
}
