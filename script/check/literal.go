package check

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// This part of the package evaluates what the text of a script shows without running it: literals, and names that are assigned
// once, at top level, to one.

// constants are the literal values of a file.
type constants struct {
	named map[string]starlark.Value
	room  int   // bytes of strings that may still be concatenated
	left  int64 // bytes of JSON that may still be made
}

// Bounds on what the literals of one file may make, since names can repeat values: bytes of concatenated strings, and
// of JSON.
const (
	maxJoined = 1 << 20
	maxJSON   = 2 << 20
)

// notLiteral is the error for an expression that cannot be evaluated without running the script.
type notLiteral struct{ At syntax.Expr }

func (*notLiteral) Error() string {
	return "has to be written out: only literals are read without running the script"
}

// literalOf returns the names that are assigned once, at top level, to a literal.
func literalOf(f *syntax.File) *constants {
	assigned := map[string]int{}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.AssignStmt:
			meter.EachName(n.LHS, func(id *syntax.Ident) { assigned[id.Name]++ })
		case *syntax.ForStmt:
			meter.EachName(n.Vars, func(id *syntax.Ident) { assigned[id.Name] += 2 })
		}
		return true
	})
	c := &constants{named: map[string]starlark.Value{}, room: maxJoined, left: maxJSON}
	for _, s := range f.Stmts {
		a, ok := s.(*syntax.AssignStmt)
		if !ok || a.Op != syntax.EQ {
			continue
		}
		id, ok := a.LHS.(*syntax.Ident)
		if !ok || assigned[id.Name] != 1 {
			continue
		}
		if v, err := c.Value(a.RHS); err == nil {
			c.named[id.Name] = v
		}
	}
	return c
}

// Value returns the value of a literal. The error is a *notLiteral.
func (c *constants) Value(x syntax.Expr) (starlark.Value, error) {
	switch x := x.(type) {
	case *syntax.Literal:
		return literalValue(x)
	case *syntax.Ident:
		switch x.Name {
		case "None":
			return starlark.None, nil
		case "True":
			return starlark.True, nil
		case "False":
			return starlark.False, nil
		}
		if v, ok := c.named[x.Name]; ok {
			return v, nil
		}
	case *syntax.ParenExpr:
		return c.Value(x.X)
	case *syntax.UnaryExpr:
		return c.sign(x)
	case *syntax.BinaryExpr:
		return c.concat(x)
	case *syntax.ListExpr:
		elems, err := c.values(x.List)
		return starlark.NewList(elems), err
	case *syntax.TupleExpr:
		elems, err := c.values(x.List)
		return starlark.Tuple(elems), err
	case *syntax.DictExpr:
		return c.dict(x)
	}
	return nil, &notLiteral{x}
}

func literalValue(x *syntax.Literal) (starlark.Value, error) {
	switch v := x.Value.(type) {
	case string:
		return starlark.String(v), nil
	case int64:
		return starlark.MakeInt64(v), nil
	case *big.Int:
		return starlark.MakeBigInt(v), nil
	case float64:
		return starlark.Float(v), nil
	}
	return nil, &notLiteral{x}
}

func (c *constants) sign(x *syntax.UnaryExpr) (starlark.Value, error) {
	if x.X == nil {
		return nil, &notLiteral{x}
	}
	v, err := c.Value(x.X)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case starlark.Int, starlark.Float:
		if x.Op == syntax.MINUS || x.Op == syntax.PLUS {
			return starlark.Unary(x.Op, v)
		}
	}
	return nil, &notLiteral{x}
}

// concat is "a" + "b", as long strings are written.
func (c *constants) concat(x *syntax.BinaryExpr) (starlark.Value, error) {
	if x.Op == syntax.PLUS {
		a, errA := c.Value(x.X)
		b, errB := c.Value(x.Y)
		if errA != nil || errB != nil {
			return nil, cmp.Or(errA, errB)
		}
		s, okA := a.(starlark.String)
		t, okB := b.(starlark.String)
		if okA && okB && len(s)+len(t) <= c.room {
			c.room -= len(s) + len(t)
			return s + t, nil
		}
	}
	return nil, &notLiteral{x}
}

func (c *constants) values(list []syntax.Expr) ([]starlark.Value, error) {
	out := make([]starlark.Value, len(list))
	for i, x := range list {
		v, err := c.Value(x)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (c *constants) dict(x *syntax.DictExpr) (starlark.Value, error) {
	d := starlark.NewDict(len(x.List))
	for _, e := range x.List {
		entry := e.(*syntax.DictEntry)
		k, err := c.Value(entry.Key)
		if err != nil {
			return nil, err
		}
		name, ok := k.(starlark.String) // other keys are not JSON, and can be slow to hash
		if !ok {
			return nil, &notLiteral{entry.Key}
		}
		v, err := c.Value(entry.Value)
		if err != nil {
			return nil, err
		}
		if err := d.SetKey(name, v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// JSON returns the JSON text of a literal.
func (c *constants) JSON(x syntax.Expr) (json.RawMessage, error) {
	v, err := c.Value(x)
	if err != nil {
		return nil, err
	}
	return c.encode(v)
}

func (c *constants) encode(v starlark.Value) (json.RawMessage, error) {
	data, err := script.Encode(v, c.left, script.DefaultLimits().Depth)
	var long *script.TooLongError
	if errors.As(err, &long) {
		c.left = 0
	}
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	c.left -= int64(len(data))
	return data, nil
}
