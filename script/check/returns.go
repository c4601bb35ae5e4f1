package check

import (
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/schema"
)

// returns checks what run returns against the tool's output schema, as far as it is literal.
func (c *checker) returns(f *syntax.File) {
	if len(c.o.Output) == 0 {
		return
	}
	run := defsOf(f)["run"]
	s, err := schema.Compile(c.o.Output)
	if run == nil || err != nil {
		return
	}
	for _, stmt := range run.Body {
		syntax.Walk(stmt, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.DefStmt, *syntax.LambdaExpr:
				return false
			case *syntax.ReturnStmt:
				c.returned(n, s)
			}
			return true
		})
	}
}

func (c *checker) returned(r *syntax.ReturnStmt, s *schema.Schema) {
	if r.Result == nil {
		return
	}
	known, computed, ok := c.knownPart(r.Result)
	if !ok {
		return
	}
	c.fits(subject{what: "output", value: r.Result, whole: r, code: codeOutput}, s.Validate(known), computed)
}
