package meter

import (
	"fmt"
	"maps"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
)

// operatorsName is the predeclared function that returns the operators to a file. Source text cannot contain this
// name.
const operatorsName = "$operators"

// nativeUniverse are the universal names that need no metering: they do no more than a step is worth, for any
// arguments.
var nativeUniverse = map[string]bool{
	"None": true, "True": true, "False": true,
	"bool": true, "chr": true, "len": true, "range": true, "type": true,
}

// meteredFunctions replace the universal functions of the same names.
var meteredFunctions = map[string]func(*Budget, *call) (starlark.Value, error){
	"abs":       firstCharged((*Budget).numberCost),
	"all":       func(b *Budget, c *call) (starlark.Value, error) { return b.search(c, false) },
	"any":       func(b *Budget, c *call) (starlark.Value, error) { return b.search(c, true) },
	"bytes":     makeBytes,
	"dict":      makeDict,
	"dir":       firstCharged((*Budget).dirCost),
	"enumerate": eachCharged(16 + 24 + 32 + tinyWeight),
	"fail":      say,
	"float":     firstCharged((*Budget).numberCost),
	"getattr":   getAttr,
	"hasattr":   hasAttr,
	"hash":      firstCharged((*Budget).numberCost),
	"int":       makeInt,
	"list":      eachCharged(16),
	"max":       func(b *Budget, c *call) (starlark.Value, error) { return b.extreme(c, syntax.GT) },
	"min":       func(b *Budget, c *call) (starlark.Value, error) { return b.extreme(c, syntax.LT) },
	"ord":       firstCharged((*Budget).numberCost),
	"print":     say,
	"repr":      makeText((*Budget).repr),
	"reversed":  eachCharged(16),
	"set":       makeSet,
	"sorted":    sorted,
	"str":       makeText((*Budget).str),
	"tuple":     eachCharged(16),
	"zip":       zip,
}

// universe are the predeclared names besides the builtins.
var universe = func() starlark.StringDict {
	all := starlark.StringDict{
		operatorsName: starlark.NewBuiltin(operatorsName, func(t *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return &Of(t).ops, nil
		}),
	}
	for name, do := range meteredFunctions {
		native := starlark.Universe[name].(*starlark.Builtin)
		all[name] = starlark.NewBuiltin(name, func(t *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return do(Of(t), &call{name, native, nil, t, args, kwargs})
		})
	}
	return all
}()

// Universe returns the universal functions, metered.
func Universe() starlark.StringDict { return maps.Clone(universe) }

// firstCharged charges for the first argument, then calls the native function.
func firstCharged(cost func(*Budget, starlark.Value) error) func(*Budget, *call) (starlark.Value, error) {
	return func(b *Budget, c *call) (starlark.Value, error) {
		if len(c.args) > 0 {
			if err := cost(b, c.args[0]); err != nil {
				return nil, err
			}
		}
		return c.pass()
	}
}

// numberCost charges for reading a text or copying a number.
func (b *Budget) numberCost(v starlark.Value) error {
	switch v := v.(type) {
	case starlark.Int:
		return b.chargeInt(v)
	case starlark.Float:
		return b.Charge(4 * tinyWeight) // as an integer, it has up to 1024 bits
	case starlark.String:
		return b.readCost(len(v))
	case starlark.Bytes:
		return b.readCost(len(v))
	}
	return nil
}

// readCost charges for reading n bytes, and for quoting them in an error.
func (b *Budget) readCost(n int) error {
	if n < bytesPerStep {
		return nil
	}
	if err := b.Work(int64(n) / bytesPerStep); err != nil {
		return err
	}
	return b.Charge(4 * int64(n))
}

func (b *Budget) dirCost(v starlark.Value) error {
	if x, ok := v.(starlark.HasAttrs); ok {
		n := len(x.AttrNames())
		if err := b.chargeEach(int64(n), pieceWeight+16); err != nil {
			return err
		}
		return b.Work(int64(n))
	}
	return nil
}

// sized returns v, or a list of its elements if their number is not known. It charges for the iteration, and each
// bytes for each element.
func (b *Budget) sized(v starlark.Iterable, each int64) (starlark.Iterable, error) {
	n := starlark.Len(v)
	if n < 0 {
		return b.collect(v, each)
	}
	if err := b.visit(n); err != nil {
		return nil, err
	}
	return v, b.chargeEach(int64(n), each+elementWeight(v, n))
}

// elementWeight returns the weight of an element that the iterator makes, in bytes.
func elementWeight(v starlark.Iterable, n int) int64 {
	switch v := v.(type) {
	case *starlark.List, starlark.Tuple, *starlark.Dict, *starlark.Set:
		return 1
	case starlark.Indexable:
		if v.Type() == "range" && n > 0 && bits(v.Index(0).(starlark.Int)) <= 32 && bits(v.Index(n-1).(starlark.Int)) <= 32 {
			return 1
		}
	}
	return 2 * tinyWeight
}

// collect makes a list of the elements of v.
func (b *Budget) collect(v starlark.Iterable, each int64) (starlark.Iterable, error) {
	var elems starlark.Tuple
	for elem := range starlark.Elements(v) {
		if len(elems)%elemsPerStep == 0 {
			if err := b.Work(1); err != nil {
				return nil, err
			}
			if err := b.chargeEach(elemsPerStep, each+3*slotWeight+tinyWeight); err != nil {
				return nil, err
			}
		}
		elems = append(elems, elem)
	}
	return elems, nil
}

// eachCharged charges for every element of the first argument, then calls the native function.
func eachCharged(each int64) func(*Budget, *call) (starlark.Value, error) {
	return func(b *Budget, c *call) (starlark.Value, error) {
		if err := b.Charge(2 * tinyWeight); err != nil {
			return nil, err
		}
		if len(c.args) > 0 {
			if v, ok := c.args[0].(starlark.Iterable); ok {
				v, err := b.sized(v, each)
				if err != nil {
					return nil, err
				}
				c.args = append(starlark.Tuple{v}, c.args[1:]...)
			}
		}
		return c.pass()
	}
}

// search implements any (for True) and all (for False).
func (b *Budget) search(c *call, want starlark.Bool) (starlark.Value, error) {
	if len(c.args) != 1 || len(c.kwargs) > 0 {
		return c.pass()
	}
	v, ok := c.args[0].(starlark.Iterable)
	if !ok {
		return c.pass()
	}
	i := 0
	for elem := range starlark.Elements(v) {
		if i++; i%elemsPerStep == 0 {
			if err := b.Work(1); err != nil {
				return nil, err
			}
		}
		if elem.Truth() == want {
			return want, nil
		}
	}
	return !want, nil
}

func makeBytes(b *Budget, c *call) (starlark.Value, error) {
	if len(c.args) == 1 {
		switch v := c.args[0].(type) {
		case starlark.String:
			if err := b.copyCost(int64(len(v)), 6); err != nil {
				return nil, err
			}
		case starlark.Bytes:
		case starlark.Iterable:
			v, err := b.sized(v, 1)
			if err != nil {
				return nil, err
			}
			c.args = starlark.Tuple{v}
		}
	}
	return c.pass()
}

func makeDict(b *Budget, c *call) (starlark.Value, error) {
	if len(c.args) > 1 {
		return c.pass()
	}
	d := new(starlark.Dict)
	if err := b.Charge(dictWeight); err != nil {
		return nil, err
	}
	if err := b.fill(d, c.args, c.kwargs); err != nil {
		return nil, c.wrong(b, err)
	}
	return d, nil
}

func makeSet(b *Budget, c *call) (starlark.Value, error) {
	if err := b.Charge(dictWeight); err != nil {
		return nil, err
	}
	if len(c.args) != 1 || len(c.kwargs) > 0 {
		return c.pass()
	}
	v, ok := c.args[0].(starlark.Iterable)
	if !ok {
		return c.pass()
	}
	s := new(starlark.Set)
	if err := b.insertAll(s, v); err != nil {
		return nil, c.wrong(b, err)
	}
	return s, nil
}

func makeInt(b *Budget, c *call) (starlark.Value, error) {
	for _, v := range c.args {
		if s, ok := v.(starlark.String); ok && len(s) > maxDigits {
			return nil, fmt.Errorf("int: string of %d characters, at most %d can be read", len(s), maxDigits)
		}
	}
	for _, kv := range c.kwargs {
		if s, ok := kv[1].(starlark.String); ok && len(s) > maxDigits {
			return nil, fmt.Errorf("int: string of %d characters, at most %d can be read", len(s), maxDigits)
		}
		if err := b.numberCost(kv[1]); err != nil {
			return nil, err
		}
	}
	if len(c.args) > 0 {
		if err := b.numberCost(c.args[0]); err != nil {
			return nil, err
		}
	}
	return c.pass()
}

func makeText(text func(*Budget, starlark.Value) (string, error)) func(*Budget, *call) (starlark.Value, error) {
	return func(b *Budget, c *call) (starlark.Value, error) {
		if len(c.args) != 1 || len(c.kwargs) > 0 {
			return c.pass()
		}
		if s, ok := c.args[0].(starlark.String); ok && c.name == "str" {
			return s, nil
		}
		s, err := text(b, c.args[0])
		return starlark.String(s), err
	}
}

// say implements print and fail: it formats the arguments, then calls the native function.
func say(b *Budget, c *call) (starlark.Value, error) {
	args := make(starlark.Tuple, len(c.args))
	n := 0
	for i, v := range c.args {
		text, err := b.printed(c.name, v)
		if err != nil {
			return nil, err
		}
		args[i] = starlark.String(text)
		n += len(text)
	}
	for _, kv := range c.kwargs {
		if sep, ok := starlark.AsString(kv[1]); ok {
			n += len(sep) * len(args)
		}
	}
	if err := b.copyCost(3*int64(n), 1); err != nil {
		return nil, err
	}
	c.args = args
	return c.pass()
}

// printed returns the text of an argument of print and fail.
func (b *Budget) printed(name string, v starlark.Value) (string, error) {
	switch v := v.(type) {
	case starlark.String:
		return string(v), nil
	case starlark.Bytes:
		if name == "print" {
			return string(v), nil
		}
	}
	return b.repr(v)
}

func getAttr(b *Budget, c *call) (starlark.Value, error) {
	if err := b.namesCost(c.args); err != nil {
		return nil, err
	}
	if len(c.args) >= 2 {
		x, ok := c.args[0].(starlark.HasAttrs)
		name, ok2 := starlark.AsString(c.args[1])
		if ok && ok2 && len(c.args) <= 3 && len(c.kwargs) == 0 {
			if v, err := attr(x, name); err == nil && v != nil {
				return v, nil
			}
		}
	}
	return c.pass()
}

func hasAttr(b *Budget, c *call) (starlark.Value, error) {
	if err := b.namesCost(c.args); err != nil {
		return nil, err
	}
	if len(c.args) > 0 {
		if s, ok := c.args[0].(*starlarkstruct.Struct); ok {
			if err := b.copyCost(int64(s.Len()), 16); err != nil { // a list of its fields
				return nil, err
			}
		}
	}
	return c.pass()
}

// namesCost charges for looking up names as long as the arguments.
func (b *Budget) namesCost(args starlark.Tuple) error {
	for _, v := range args {
		if s, ok := v.(starlark.String); ok {
			if err := b.readCost(len(s)); err != nil {
				return err
			}
		}
	}
	return nil
}

func zip(b *Budget, c *call) (starlark.Value, error) {
	if len(c.args) == 0 || len(c.kwargs) > 0 {
		return c.pass()
	}
	rows, row := int64(-1), int64(24+16+16*len(c.args))
	for _, v := range c.args {
		n := starlark.Len(v)
		iterable, ok := v.(starlark.Iterable)
		if !ok {
			return c.pass()
		}
		if n >= 0 && (rows < 0 || int64(n) < rows) {
			rows = int64(n)
		}
		row += elementWeight(iterable, n)
	}
	if err := b.Charge(int64(len(c.args)+1) * 3 * tinyWeight); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(c.args, func(v starlark.Value) bool { return starlark.Len(v) < 0 }) {
		return b.zipUnknown(c.args, row+2*slotWeight)
	}
	if err := b.chargeEach(rows, row); err != nil {
		return nil, err
	}
	if err := b.Work(rows * int64(len(c.args)) / elemsPerStep); err != nil {
		return nil, err
	}
	return c.pass()
}

// zipUnknown implements zip where the length of some argument is not known.
func (b *Budget) zipUnknown(args starlark.Tuple, row int64) (starlark.Value, error) {
	iters := make([]starlark.Iterator, len(args))
	for i, v := range args {
		iters[i] = starlark.Iterate(v)
		defer iters[i].Done()
	}
	var rows []starlark.Value
	for {
		if err := b.Charge(row); err != nil {
			return nil, err
		}
		if err := b.Work(1 + int64(len(args))/elemsPerStep); err != nil {
			return nil, err
		}
		tuple := make(starlark.Tuple, len(args))
		for i, it := range iters {
			if !it.Next(&tuple[i]) {
				return starlark.NewList(rows), nil
			}
		}
		rows = append(rows, tuple)
	}
}
