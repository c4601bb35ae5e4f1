package check

import (
	"slices"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check/literal"
)

// Calls is what the text of a program says about the tools that it calls.
type Calls struct {
	// Tools are the names given as text where a builtin takes the name of a tool, sorted.
	Tools []string
	// Dynamic says that some name is computed, so that there may be more.
	Dynamic bool
}

// Scan looks at the files of one program while it is compiled: [Scan.File] is a value for
// script.Options.Inspect.
type Scan struct {
	builtins table
	calls    Calls
}

// NewScan returns a scan that knows the table of builtins.
func NewScan(builtins []Builtin) *Scan { return &Scan{builtins: tableOf(builtins)} }

// Calls returns the tools that the files so far can call, as far as their text shows them.
func (s *Scan) Calls() Calls {
	c := s.calls
	c.Tools = slices.Clone(c.Tools)
	slices.Sort(c.Tools)
	c.Tools = slices.Compact(c.Tools)
	return c
}

// File notes the calls of a file, and refuses one with questions that no client can show.
func (s *Scan) File(tree *syntax.File) error {
	s.note(tree)
	return s.forms(tree)
}

func (s *Scan) note(tree *syntax.File) {
	direct := map[*syntax.Ident]bool{}
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			b := s.builtins.called(n)
			if b == nil || b.Tool.Name == "" {
				break
			}
			direct[n.Fn.(*syntax.Ident)] = true
			if name, ok := literalString(b.Tool.of(n)); ok {
				s.calls.Tools = append(s.calls.Tools, name)
				break
			}
			s.calls.Dynamic = true
		case *syntax.Ident:
			// The function as a value can be called with anything.
			if b := s.builtins[n.Name]; b != nil && b.Tool.Name != "" && !direct[n] {
				s.calls.Dynamic = true
			}
		}
		return true
	})
}

// forms reports the questions of a file whose literal schema no client can show.
func (s *Scan) forms(tree *syntax.File) error {
	c := &checker{builtins: s.builtins, constants: literal.Of(tree)}
	syntax.Walk(tree, func(n syntax.Node) bool {
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
