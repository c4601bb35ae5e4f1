package gotmpl

import (
	"strings"
)

// clean writes a function the way a person would have.
func (c *call) clean() Expr {
	a := c.args
	switch c.name {
	case "json", "quote":
		return Expr{Code: Call("json.encode", a[0].Code), Kind: Text}
	case "fromJson":
		return Expr{Code: Call("json.decode", a[0].Code), Kind: Any}
	case "len":
		return Expr{Code: Call("len", a[0].Code), Kind: Int}
	case "index":
		return c.subscripts()
	case "slice":
		if len(a) <= 3 {
			return Expr{Code: a[0].Operand() + "[" + join(a[1:], ":") + "]", Kind: a[0].Kind}
		}
	case "printf":
		if a[0].Literal && plainFormat(a[0].Text, len(a)-1) {
			return format(strings.ReplaceAll(a[0].Text, "%v", "%s"), a[1:])
		}
	case "print", "println":
		return c.print()
	}
	return c.exact()
}

func join(args []Expr, sep string) string {
	switch len(args) {
	case 0:
		return sep
	case 1:
		return args[0].Code + sep
	}
	return args[0].Code + sep + args[1].Code
}

// subscripts writes index as x[i][j].
func (c *call) subscripts() Expr {
	e := c.args[0]
	for _, i := range c.args[1:] {
		e = Expr{Code: e.Operand() + "[" + i.Code + "]"}
	}
	return e
}

// plainFormat reports whether Starlark formats the same: only %s, %v, %d and %%.
func plainFormat(s string, args int) bool {
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			return args == 0
		}
		if i+1 >= len(s) {
			return false
		}
		switch s[i+1] {
		case 's', 'v', 'd':
			args--
		case '%':
		default:
			return false
		}
		s = s[i+2:]
	}
}

func format(text string, args []Expr) Expr {
	if len(args) == 0 {
		return String(strings.ReplaceAll(text, "%%", "%"))
	}
	operand := "(" + codes(args) + ")"
	if len(args) == 1 {
		operand = argument(args[0].Code)
	}
	return Expr{Code: Quote(text) + " % " + operand, Kind: Text, Rank: Arithmetic}
}

// print writes print and println, which put spaces between values that are no texts.
func (c *call) print() Expr {
	var parts []Expr
	for i, a := range c.args {
		if i > 0 && (c.name == "println" || a.Kind != Text && c.args[i-1].Kind != Text) {
			parts = append(parts, String(" "))
		}
		parts = append(parts, c.g.print(a))
	}
	if c.name == "println" {
		parts = append(parts, String("\n"))
	}
	return concat(parts)
}

// cleanFields writes a["b"]["c"].
func (g *generator) cleanFields(base Expr, names []string) Expr {
	e := base
	if len(names) > 0 {
		g.Differ("a field that is missing is an error")
	}
	for _, name := range names {
		e = Expr{Code: e.Operand() + "[" + Quote(name) + "]"}
	}
	return e
}
