package script

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
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
	ops.view.budget = b
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

// place is the target x of an assignment x[i] = v, or of an augmented one, where it
// also stands for the value that x[i] has.
type place struct {
	budget *budget
	x      starlark.Value
	old    starlark.Value
}

var (
	_ starlark.HasSetKey   = (*place)(nil)
	_ starlark.HasSetField = (*place)(nil)
	_ starlark.HasBinary   = (*place)(nil)
)

// place serves assignments whose index runs no code.
func (b *budget) place(x starlark.Value) (starlark.Value, error) {
	b.ops.place.x = x
	return &b.ops.place, nil
}

func (b *budget) augmentPlace(x starlark.Value) (starlark.Value, error) {
	return &place{budget: b, x: x}, nil
}

// Get reads x[i] for an augmented assignment.
func (p *place) Get(i starlark.Value) (starlark.Value, bool, error) {
	var err error
	p.old, err = p.budget.index(p.x, i)
	return p, true, err
}

// SetKey does x[i] = v.
func (p *place) SetKey(i, v starlark.Value) error {
	x := p.x
	p.x = nil
	return p.budget.setIndex(x, i, v)
}

// Attr reads x.name for an augmented assignment.
func (p *place) Attr(name string) (starlark.Value, error) {
	x, ok := p.x.(starlark.HasAttrs)
	if !ok {
		return nil, fmt.Errorf("%s has no .%s field or method", p.x.Type(), name)
	}
	old, err := x.Attr(name)
	if old == nil || err != nil {
		return nil, err
	}
	p.old = old
	return p, nil
}

func (p *place) AttrNames() []string {
	if x, ok := p.x.(starlark.HasAttrs); ok {
		return x.AttrNames()
	}
	return nil
}

// SetField does x.name = v.
func (p *place) SetField(name string, v starlark.Value) error {
	if x, ok := p.x.(starlark.HasSetField); ok {
		return x.SetField(name, v)
	}
	return fmt.Errorf("can't assign to .%s field of %s", name, p.x.Type())
}

// Binary computes the new value of an augmented assignment.
func (p *place) Binary(op syntax.Token, y starlark.Value, _ starlark.Side) (starlark.Value, error) {
	old := p.old
	p.old = nil
	return p.budget.augment(op, old, y)
}

func (p *place) String() string        { return "place" }
func (p *place) Type() string          { return p.x.Type() }
func (p *place) Freeze()               {}
func (p *place) Truth() starlark.Bool  { return true }
func (p *place) Hash() (uint32, error) { return 0, errors.New("unhashable: place") }

func unary(op syntax.Token) func(*budget, starlark.Value) (starlark.Value, error) {
	return func(b *budget, x starlark.Value) (starlark.Value, error) {
		if i, ok := x.(starlark.Int); ok {
			if err := b.chargeInt(i); err != nil {
				return nil, err
			}
		}
		return starlark.Unary(op, x)
	}
}

// binary computes x op y.
func (b *budget) binary(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	var err error
	switch x := x.(type) {
	case starlark.Int:
		err = b.intCost(op, x, y)
	case starlark.Float:
		if y, ok := y.(starlark.Int); ok {
			err = b.chargeInt(y)
		}
	case starlark.String:
		if op == syntax.PERCENT {
			return b.interpolate(x, y)
		}
		if y, ok := y.(starlark.String); ok && op == syntax.PLUS {
			return b.concat(x, y)
		}
		err = b.sequenceCost(op, len(x), 1, y)
	case starlark.Bytes:
		err = b.sequenceCost(op, len(x), 1, y)
	case *starlark.List:
		err = b.sequenceCost(op, x.Len(), 16, y)
	case starlark.Tuple:
		err = b.sequenceCost(op, len(x), 16, y)
	case *starlark.Set:
		err = b.tablesCost(x, y)
	case *starlark.Dict:
		err = b.tablesCost(x, y)
	case *starlarkstruct.Struct:
		if y, ok := y.(*starlarkstruct.Struct); ok {
			err = b.copyCost(int64(x.Len()+y.Len()), 4*tinyWeight)
		}
	}
	if err != nil {
		return nil, err
	}
	return starlark.Binary(op, x, y)
}

// sequenceCost pays for x + y and x * y, where x has n elements of size each.
func (b *budget) sequenceCost(op syntax.Token, n int, each int64, y starlark.Value) error {
	switch op {
	case syntax.PLUS:
		m := max(starlark.Len(y), 0)
		if y, ok := y.(starlark.Bytes); ok {
			m = len(y)
		}
		return b.copyCost(int64(n)+int64(m), each)
	case syntax.STAR:
		if y, ok := y.(starlark.Int); ok {
			return b.repeatCost(n, each, y)
		}
	}
	return nil
}

// copyCost pays for a new sequence of n elements.
func (b *budget) copyCost(n, each int64) error {
	if err := b.chargeEach(n+tinyWeight, each); err != nil {
		return err
	}
	return b.work(n * each / blockPerStep)
}

func (b *budget) repeatCost(n int, each int64, count starlark.Int) error {
	times, ok := count.Int64()
	if !ok || times <= 0 || n == 0 || times > 1<<31 {
		return nil // an empty result, or an error
	}
	return b.copyCost(int64(n)*times, each)
}

// augment computes x op= y.
func (b *budget) augment(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	switch x := x.(type) {
	case *starlark.List:
		if y, ok := y.(starlark.Iterable); ok && op == syntax.PLUS {
			return x, b.extend(x, y, "apply += to")
		}
	case *starlark.Dict:
		if y, ok := y.(*starlark.Dict); ok && op == syntax.PIPE {
			return x, b.update(x, y, "apply |= to")
		}
	}
	return b.binary(op, x, y)
}

// extend appends the elements of y to x.
func (b *budget) extend(x *starlark.List, y starlark.Iterable, verb string) error {
	if err := mutable(x, verb); err != nil {
		return err
	}
	if y, ok := y.(*starlark.List); ok {
		n := y.Len() // x may be y
		if err := b.growCost(n); err != nil {
			return err
		}
		for i := range n {
			x.Append(y.Index(i)) // cannot fail: x is mutable
		}
		return nil
	}
	y, err := b.sized(y, 0)
	if err != nil {
		return err
	}
	if err := b.growCost(starlark.Len(y)); err != nil {
		return err
	}
	for v := range starlark.Elements(y) {
		if err := x.Append(v); err != nil {
			return err
		}
	}
	return nil
}

// growCost pays for n more elements of a list.
func (b *budget) growCost(n int) error {
	if err := b.chargeEach(int64(n), 3*slotWeight); err != nil {
		return err
	}
	return b.visit(n)
}

// mutable reports an error in the interpreter's words if x must not change now.
func mutable(x *starlark.List, verb string) error {
	var err error
	if x.Len() == 0 {
		err = x.Clear()
	} else {
		err = x.SetIndex(0, x.Index(0))
	}
	if err == nil {
		return nil
	}
	msg := strings.Replace(err.Error(), "cannot clear", "cannot "+verb, 1)
	return errors.New(strings.Replace(msg, "cannot assign to element of", "cannot "+verb, 1))
}

// update adds the entries of y to x.
func (b *budget) update(x, y *starlark.Dict, verb string) error {
	if err := b.chargeEach(int64(y.Len()), 2*tinyWeight); err != nil {
		return err
	}
	for _, item := range y.Items() {
		if err := b.setKey(x, item[0], item[1]); err != nil {
			if isLimit(err) {
				return err
			}
			return errors.New(strings.Replace(err.Error(), "insert into", verb, 1))
		}
	}
	return nil
}

func isLimit(err error) bool {
	_, ok := err.(*LimitError)
	return ok
}

// index computes x[i].
func (b *budget) index(x, i starlark.Value) (starlark.Value, error) {
	switch x := x.(type) {
	case *starlark.Dict:
		if err := b.lookup(x, i); err != nil {
			return nil, err
		}
		v, found, err := x.Get(i)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, b.noKey(x, i)
		}
		return v, nil
	case starlark.Mapping:
		v, found, err := x.Get(i)
		if err == nil && !found {
			err = b.noKey(x, i)
		}
		return v, err
	case starlark.Indexable:
		n, err := position(x, i, "%s index: %s")
		if err != nil {
			return nil, err
		}
		return x.Index(n), nil
	}
	return nil, fmt.Errorf("unhandled index operation %s[%s]", x.Type(), i.Type())
}

func (b *budget) noKey(x, key starlark.Value) error {
	text, err := b.repr(key)
	if err != nil {
		return err
	}
	return fmt.Errorf("key %s not in %s", text, x.Type())
}

// position returns the offset that i means in x.
func position(x starlark.Indexable, i starlark.Value, format string) (int, error) {
	have, err := starlark.AsInt32(i)
	if err != nil {
		if format == "" {
			return 0, err
		}
		return 0, fmt.Errorf(format, x.Type(), err)
	}
	n := x.Len()
	at := have
	if at < 0 {
		at += n
	}
	switch {
	case 0 <= at && at < n:
		return at, nil
	case n == 0:
		return 0, fmt.Errorf("index %d out of range: empty %s", have, x.Type())
	}
	return 0, fmt.Errorf("%s index %d out of range [%d:%d]", x.Type(), have, -n, n-1)
}

// setIndex does x[i] = v.
func (b *budget) setIndex(x, i, v starlark.Value) error {
	switch x := x.(type) {
	case *starlark.Dict:
		return b.setKey(x, i, v)
	case starlark.HasSetKey:
		return x.SetKey(i, v)
	case starlark.HasSetIndex:
		n, err := position(x, i, "")
		if err != nil {
			return err
		}
		return x.SetIndex(n, v)
	}
	return fmt.Errorf("%s value does not support item assignment", x.Type())
}

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
