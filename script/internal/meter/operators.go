package meter

import (
	"errors"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// An operator stands in a rewritten tree for an operation that the budget must see.
//
// x + y becomes x - (op | y): the bar passes y to the operator, which returns itself; the minus, which no built-in
// type implements for an operator, passes x. Nothing runs between the two, so one operator serves a whole run, and the
// operation needs no call, no allocation and no frame in a backtrace. Comparisons become x in (op | y), which yields a
// bool. Operations on one value end at the bar.
type operator struct {
	budget *Budget
	apply  func(b *Budget, x, y starlark.Value) (starlark.Value, error)
	test   func(b *Budget, x, y starlark.Value) (bool, error)
	single func(b *Budget, y starlark.Value) (starlark.Value, error)
	saved  int64 // additional steps that the interpreter counts
	mark   bool  // a mark of coverage: taking it uses no steps
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

// operators are the operators of one run. Only those that a file uses are made.
type operators struct {
	byName [len(operatorNames)]*operator
	place  place
	view   view
}

// operatorNames are the names of the operators in rewritten trees.
var operatorNames = [...]string{
	"+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>",
	"+=", "-=", "*=", "/=", "//=", "%=", "&=", "|=", "^=", "<<=", ">>=",
	"==", "!=", "<", ">", "<=", ">=", "in",
	"unary+", "unary-", "unary~",
	"index", "slice", "place", "augment", "key", "pair", "entries", "view", "args", "kwargs", "made",
	"mark", "way", "loop",
}

// operatorTable has the initial operators of a run, and operatorIndex the index of each.
var operatorTable, operatorIndex = func() (table [len(operatorNames)]operator, index map[string]int) {
	index = map[string]int{}
	for i, name := range operatorNames {
		table[i] = operatorKinds[name]
		index[name] = i
	}
	return table, index
}()

func (ops *operators) init(b *Budget) {
	ops.place.budget = b
}

// of returns operator i, which is made when a file first uses it.
func (ops *operators) of(i int) *operator {
	if ops.byName[i] == nil {
		o := operatorTable[i]
		o.budget = ops.place.budget
		ops.byName[i] = &o
	}
	return ops.byName[i]
}

// operatorKinds implement the operators.
var operatorKinds = func() map[string]operator {
	kinds := map[string]operator{
		"in":      {test: (*Budget).contains, saved: 2},
		"unary+":  {single: unary(syntax.PLUS), saved: 1},
		"unary-":  {single: unary(syntax.MINUS), saved: 1},
		"unary~":  {single: unary(syntax.TILDE), saved: 1},
		"index":   {apply: (*Budget).index, saved: 2},
		"slice":   {apply: (*Budget).slice, saved: 2},
		"place":   {single: (*Budget).place, saved: 2},
		"augment": {single: (*Budget).augmentPlace, saved: 2},
		"key":     {single: (*Budget).key, saved: 2},
		"pair":    {single: (*Budget).pair, saved: 2},
		"entries": {single: (*Budget).entries, saved: 2},
		"view":    {single: (*Budget).viewOf, saved: 2},
		"args":    {single: (*Budget).args, saved: 2},
		"kwargs":  {single: (*Budget).kwargs, saved: 2},
		"made":    {single: (*Budget).made, saved: 4},
		"mark":    {single: (*Budget).mark, saved: 4, mark: true},
		"way":     {apply: (*Budget).way, saved: 4, mark: true},
		"loop":    {apply: (*Budget).loop, saved: 4, mark: true},
	}
	for op := syntax.PLUS; op <= syntax.GTGT; op++ {
		if op == syntax.TILDE {
			continue
		}
		kinds[op.String()] = operator{saved: 2, apply: func(b *Budget, x, y starlark.Value) (starlark.Value, error) {
			return b.binary(op, x, y)
		}}
		kinds[op.String()+"="] = operator{saved: 2, apply: func(b *Budget, x, y starlark.Value) (starlark.Value, error) {
			return b.augment(op, x, y)
		}}
	}
	for _, op := range []syntax.Token{syntax.EQL, syntax.NEQ, syntax.LT, syntax.GT, syntax.LE, syntax.GE} {
		kinds[op.String()] = operator{saved: 2, test: func(b *Budget, x, y starlark.Value) (bool, error) {
			return b.compare(op, x, y, starlark.CompareLimit)
		}}
	}
	return kinds
}()

// Attr returns an operator to a file.
func (ops *operators) Attr(name string) (starlark.Value, error) {
	if name == "none" {
		return starlark.None, nil
	}
	if name == "alone" {
		ops.place.budget.steps -= 2 * takingSteps
		return starlark.None, nil
	}
	if i, ok := operatorIndex[name]; ok {
		o := ops.of(i)
		if o.mark {
			o.budget.steps -= takingSteps
		}
		return o, nil
	}
	return nil, nil
}

// takingSteps are the steps of the statement in which a file takes an operator, or all of them.
const takingSteps = 3

func (ops *operators) AttrNames() []string   { return nil }
func (ops *operators) String() string        { return "operators" }
func (ops *operators) Type() string          { return "operators" }
func (ops *operators) Freeze()               {}
func (ops *operators) Truth() starlark.Bool  { return true }
func (ops *operators) Hash() (uint32, error) { return 0, errors.New("unhashable: operators") }

// made charges for what the file is about to make in one operation, n bytes.
func (b *Budget) made(n starlark.Value) (starlark.Value, error) {
	i, err := starlark.AsInt32(n)
	if err != nil {
		return nil, err
	}
	return starlark.None, b.Charge(int64(i))
}

// args charges for f(*x).
func (b *Budget) args(x starlark.Value) (starlark.Value, error) {
	iterable, ok := x.(starlark.Iterable)
	if !ok {
		return x, nil
	}
	return b.sized(iterable, 6*slotWeight)
}

// kwargs charges for f(**x), whose names are searched linearly.
func (b *Budget) kwargs(x starlark.Value) (starlark.Value, error) {
	m, ok := x.(*starlark.Dict)
	if !ok {
		return x, nil
	}
	n := int64(m.Len())
	if err := b.chargeEach(n, 2*tinyWeight+entryWeight); err != nil {
		return nil, err
	}
	if err := b.Work(n + n*n/1024); err != nil {
		return nil, err
	}
	for k := range m.Entries() {
		if err := b.keyCost(k); err != nil {
			return nil, err
		}
		if n := max(starlark.Len(k), 0); n > 0 { // an error may quote it, and compare it with names
			if err := b.readCost(n); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// key charges for hashing a key of a dict display.
func (b *Budget) key(k starlark.Value) (starlark.Value, error) { return k, b.keyCost(k) }

// pair charges for a key and a value of a comprehension, and refuses an unhashable key.
func (b *Budget) pair(kv starlark.Value) (starlark.Value, error) {
	key := kv.(starlark.Tuple)[0]
	if err := b.keyCost(key); err != nil {
		return nil, err
	}
	_, err := key.Hash()
	return kv, err
}

// entries makes the dict of a comprehension from its pairs.
func (b *Budget) entries(pairs starlark.Value) (starlark.Value, error) {
	list := pairs.(*starlark.List)
	if err := b.chargeEach(int64(list.Len()), 2*tinyWeight); err != nil {
		return nil, err
	}
	d := new(starlark.Dict)
	if err := b.Charge(dictWeight); err != nil {
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
