package script

import (
	"errors"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// An operator stands in a rewritten tree for an operation that the budget must see.
//
// x + y becomes x - (op | y): the bar hands y to the operator, which returns itself,
// and the minus, which no built-in type knows for an operator, comes back with x.
// Nothing runs between the two, so one operator serves a whole run, and the operation
// costs neither a call nor an allocation nor a frame in a backtrace. Comparisons
// become x in (op | y), which yields a bool. Operations on one value end at the bar.
type operator struct {
	budget *budget
	apply  func(b *budget, x, y starlark.Value) (starlark.Value, error)
	test   func(b *budget, x, y starlark.Value) (bool, error)
	single func(b *budget, y starlark.Value) (starlark.Value, error)
	saved  int64 // steps that the interpreter counts on top of the operation's own
	right  starlark.Value
}

var (
	_ starlark.HasBinary = (*operator)(nil)
	_ starlark.Container = (*operator)(nil)
)

// Binary is called for op | y, then for x - op.
func (o *operator) Binary(_ syntax.Token, v starlark.Value, side starlark.Side) (starlark.Value, error) {
	if side == starlark.Right {
		o.budget.steps -= o.saved
		y := o.right
		o.right = nil
		return o.apply(o.budget, v, y)
	}
	if o.single != nil {
		o.budget.steps -= o.saved
		return o.single(o.budget, v)
	}
	o.right = v
	return o, nil
}

// Has is called for x in op.
func (o *operator) Has(x starlark.Value) (bool, error) {
	o.budget.steps -= o.saved
	y := o.right
	o.right = nil
	return o.test(o.budget, x, y)
}

func (o *operator) String() string        { return "operator" }
func (o *operator) Type() string          { return "operator" }
func (o *operator) Freeze()               {}
func (o *operator) Truth() starlark.Bool  { return true }
func (o *operator) Hash() (uint32, error) { return 0, errors.New("unhashable: operator") }

// operators are the operators of one run. Every file takes those that it uses from it.
type operators struct {
	byName [len(operatorNames)]operator
	place  place
	view   view
}

// operatorNames are what rewritten trees call the operators.
var operatorNames = [...]string{
	"+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>",
	"+=", "-=", "*=", "/=", "//=", "%=", "&=", "|=", "^=", "<<=", ">>=",
	"==", "!=", "<", ">", "<=", ">=", "in",
	"unary+", "unary-", "unary~",
	"index", "slice", "place", "augment", "key", "entries", "view", "args", "kwargs", "made",
}

// operatorTable is what a run's operators begin as, and operatorIndex where each is.
var operatorTable, operatorIndex = func() (table [len(operatorNames)]operator, index map[string]int) {
	index = map[string]int{}
	for i, name := range operatorNames {
		table[i] = operatorKinds[name]
		index[name] = i
	}
	return table, index
}()

func (ops *operators) init(b *budget) {
	ops.place.budget = b
	ops.byName = operatorTable
	for i := range ops.byName {
		ops.byName[i].budget = b
	}
}

// operatorKinds say what the operators do.
var operatorKinds = func() map[string]operator {
	kinds := map[string]operator{
		"in":      {test: (*budget).contains, saved: 2},
		"unary+":  {single: unary(syntax.PLUS), saved: 1},
		"unary-":  {single: unary(syntax.MINUS), saved: 1},
		"unary~":  {single: unary(syntax.TILDE), saved: 1},
		"index":   {apply: (*budget).index, saved: 2},
		"slice":   {apply: (*budget).slice, saved: 2},
		"place":   {single: (*budget).place, saved: 2},
		"augment": {single: (*budget).augmentPlace, saved: 2},
		"key":     {single: (*budget).key, saved: 2},
		"entries": {single: (*budget).entries, saved: 2},
		"view":    {single: (*budget).viewOf, saved: 2},
		"args":    {single: (*budget).args, saved: 2},
		"kwargs":  {single: (*budget).kwargs, saved: 2},
		"made":    {single: (*budget).made, saved: 4},
	}
	for op := syntax.PLUS; op <= syntax.GTGT; op++ {
		if op == syntax.TILDE {
			continue
		}
		kinds[op.String()] = operator{saved: 2, apply: func(b *budget, x, y starlark.Value) (starlark.Value, error) {
			return b.binary(op, x, y)
		}}
		kinds[op.String()+"="] = operator{saved: 2, apply: func(b *budget, x, y starlark.Value) (starlark.Value, error) {
			return b.augment(op, x, y)
		}}
	}
	for _, op := range []syntax.Token{syntax.EQL, syntax.NEQ, syntax.LT, syntax.GT, syntax.LE, syntax.GE} {
		kinds[op.String()] = operator{saved: 2, test: func(b *budget, x, y starlark.Value) (bool, error) {
			return b.compare(op, x, y, starlark.CompareLimit)
		}}
	}
	return kinds
}()

// Attr hands an operator to a file.
func (ops *operators) Attr(name string) (starlark.Value, error) {
	if name == "none" {
		return starlark.None, nil
	}
	if i, ok := operatorIndex[name]; ok {
		return &ops.byName[i], nil
	}
	return nil, nil
}

func (ops *operators) AttrNames() []string   { return nil }
func (ops *operators) String() string        { return "operators" }
func (ops *operators) Type() string          { return "operators" }
func (ops *operators) Freeze()               {}
func (ops *operators) Truth() starlark.Bool  { return true }
func (ops *operators) Hash() (uint32, error) { return 0, errors.New("unhashable: operators") }

// made pays for what the file is about to make in one go, as many bytes as it says.
func (b *budget) made(n starlark.Value) (starlark.Value, error) {
	i, err := starlark.AsInt32(n)
	if err != nil {
		return nil, err
	}
	return starlark.None, b.charge(int64(i))
}

// args pays for f(*x).
func (b *budget) args(x starlark.Value) (starlark.Value, error) {
	iterable, ok := x.(starlark.Iterable)
	if !ok {
		return x, nil
	}
	return b.sized(iterable, 6*slotWeight)
}

// kwargs pays for f(**x): names are searched one by one.
func (b *budget) kwargs(x starlark.Value) (starlark.Value, error) {
	m, ok := x.(*starlark.Dict)
	if !ok {
		return x, nil
	}
	n := int64(m.Len())
	if err := b.chargeEach(n, 2*tinyWeight+entryWeight); err != nil {
		return nil, err
	}
	if err := b.work(n + n*n/1024); err != nil {
		return nil, err
	}
	for k := range m.Entries() {
		if err := b.keyCost(k); err != nil {
			return nil, err
		}
		if err := b.charge(int64(max(starlark.Len(k), 0))); err != nil { // an error may quote it
			return nil, err
		}
	}
	return m, nil
}

// key pays for hashing a key of a dict display.
func (b *budget) key(k starlark.Value) (starlark.Value, error) { return k, b.keyCost(k) }

// entries makes the dict of a comprehension from its pairs.
func (b *budget) entries(pairs starlark.Value) (starlark.Value, error) {
	list := pairs.(*starlark.List)
	if err := b.chargeEach(int64(list.Len()), 2*tinyWeight); err != nil {
		return nil, err
	}
	d := new(starlark.Dict)
	if err := b.charge(dictWeight); err != nil {
		return nil, err
	}
	for i := range list.Len() {
		pair := list.Index(i).(starlark.Tuple)
		if err := b.setKey(d, pair[0], pair[1]); err != nil {
			return nil, err
		}
	}
	return d, nil
}
