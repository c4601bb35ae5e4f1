package script

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

// A method of a built-in value is replaced by a metered one, whether it is called at
// once, kept as a value or found by getattr. Those that are in no table here are native:
// they do no more than a step is worth.
type metered struct {
	// cost pays for a call of the native method.
	cost func(b *budget, recv starlark.Value, args starlark.Tuple) error
	// call is done instead of the native method, if not nil.
	call func(b *budget, c *call) (starlark.Value, error)
}

// call is one call of a metered function.
type call struct {
	name   string
	native *starlark.Builtin // bound
	recv   starlark.Value
	thread *starlark.Thread
	args   starlark.Tuple
	kwargs []starlark.Tuple
}

// pass calls the native function.
func (c *call) pass() (starlark.Value, error) {
	return c.native.CallInternal(c.thread, c.args, c.kwargs)
}

// wrong reports an error in the words of the interpreter.
func (c *call) wrong(err error) error {
	if isLimit(err) {
		return err
	}
	return fmt.Errorf("%s: %v", c.name, err)
}

// method is a metered method bound to its value.
type method struct {
	*starlark.Builtin // the native one, bound
	metered
}

var _ starlark.Callable = (*method)(nil)

// CallInternal pays for the call and makes it.
func (m *method) CallInternal(t *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	b := budgetOf(t)
	if m.call != nil {
		return m.call(b, &call{m.Name(), m.Builtin, m.Receiver(), t, args, kwargs})
	}
	if err := m.cost(b, m.Receiver(), args); err != nil {
		return nil, err
	}
	return m.Builtin.CallInternal(t, args, kwargs)
}

// view stands for a value between the operator that made it and the attribute that is
// read from it next.
type view struct {
	starlark.HasAttrs
	budget *budget
}

// viewOf makes the methods of x metered ones.
func (b *budget) viewOf(x starlark.Value) (starlark.Value, error) {
	if methodsOf(x) == nil {
		return x, nil
	}
	b.ops.view.HasAttrs = x.(starlark.HasAttrs)
	return &b.ops.view, nil
}

func (v *view) Attr(name string) (starlark.Value, error) { return attr(v.HasAttrs, name) }

// attr is x.name.
func attr(x starlark.HasAttrs, name string) (starlark.Value, error) {
	v, err := x.Attr(name)
	native, ok := v.(*starlark.Builtin)
	if !ok {
		return v, err
	}
	if m, ok := methodsOf(x)[name]; ok {
		return &method{native, m}, nil
	}
	return v, err
}

func methodsOf(x starlark.Value) map[string]metered {
	switch x.(type) {
	case starlark.String:
		return stringMethods
	case starlark.Bytes:
		return bytesMethods
	case *starlark.List:
		return listMethods
	case *starlark.Dict:
		return dictMethods
	case *starlark.Set:
		return setMethods
	}
	return nil
}

// isMetered reports whether some value has a metered method of that name.
func isMetered(name string) bool {
	for _, methods := range []map[string]metered{stringMethods, bytesMethods, listMethods, dictMethods, setMethods} {
		if _, ok := methods[name]; ok {
			return true
		}
	}
	return false
}

var bytesMethods = map[string]metered{}

var stringMethods = map[string]metered{
	"capitalize":   {cost: mapCost},
	"count":        {cost: searchesCost},
	"endswith":     {cost: prefixCost},
	"find":         {cost: searchesCost},
	"format":       {call: formatString},
	"index":        {cost: searchesCost},
	"isalnum":      {cost: scanCost},
	"isalpha":      {cost: scanCost},
	"isdigit":      {cost: scanCost},
	"islower":      {cost: mapCost},
	"isspace":      {cost: scanCost},
	"istitle":      {cost: scanCost},
	"isupper":      {cost: mapCost},
	"join":         {call: join},
	"lower":        {cost: mapCost},
	"lstrip":       {cost: stripCost},
	"partition":    {cost: searchesCost},
	"removeprefix": {cost: prefixCost},
	"removesuffix": {cost: prefixCost},
	"replace":      {cost: replaceCost},
	"rfind":        {cost: searchesCost},
	"rindex":       {cost: searchesCost},
	"rpartition":   {cost: searchesCost},
	"rsplit":       {call: split},
	"rstrip":       {cost: stripCost},
	"split":        {call: split},
	"splitlines":   {cost: linesCost},
	"startswith":   {cost: prefixCost},
	"strip":        {cost: stripCost},
	"title":        {cost: mapCost},
	"upper":        {cost: mapCost},
}

// textOf returns argument i if it is a string.
func textOf(args starlark.Tuple, i int) (string, bool) {
	if i >= len(args) {
		return "", false
	}
	return starlark.AsString(args[i])
}

func lenOf(recv starlark.Value) int { return len(recv.(starlark.String)) }

// scanCost pays for looking at every character.
func scanCost(b *budget, recv starlark.Value, _ starlark.Tuple) error {
	return b.work(int64(lenOf(recv)) / bytesPerStep)
}

// mapCost pays for a text with other characters, each of which can be longer.
func mapCost(b *budget, recv starlark.Value, _ starlark.Tuple) error {
	s := string(recv.(starlark.String))
	if err := b.work(int64(len(s)) / bytesPerStep); err != nil {
		return err
	}
	if ascii(s) {
		return b.copyCost(int64(len(s)), 1)
	}
	return b.copyCost(int64(len(s)), 6)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// searchesCost pays for one search of the first argument.
func searchesCost(b *budget, recv starlark.Value, args starlark.Tuple) error {
	sub, _ := textOf(args, 0)
	n := lenOf(recv)
	if err := b.work(int64(n) / bytesPerStep); err != nil {
		return err
	}
	if err := b.charge(4 * tinyWeight); err != nil {
		return err
	}
	return b.searchCost(n, len(sub))
}

// prefixCost pays for comparing the ends of a string with one or many.
func prefixCost(b *budget, recv starlark.Value, args starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	n := lenOf(recv)
	if s, ok := textOf(args, 0); ok {
		return b.textCost(min(n, len(s)))
	}
	options, ok := args[0].(starlark.Tuple)
	if !ok {
		return nil
	}
	if err := b.visit(len(options)); err != nil {
		return err
	}
	for _, v := range options {
		s, _ := starlark.AsString(v)
		if err := b.textCost(min(n, len(s))); err != nil {
			return err
		}
	}
	return nil
}

// stripCost pays for looking up every character among those to strip.
func stripCost(b *budget, recv starlark.Value, args starlark.Tuple) error {
	chars, _ := textOf(args, 0)
	return b.work(int64(lenOf(recv)) * int64(len(chars)+1) / bytesPerStep)
}

// replaceCost pays for the new text.
func replaceCost(b *budget, recv starlark.Value, args starlark.Tuple) error {
	from, ok := textOf(args, 0)
	to, ok2 := textOf(args, 1)
	if !ok || !ok2 {
		return nil
	}
	if err := searchesCost(b, recv, args); err != nil {
		return err
	}
	s := string(recv.(starlark.String))
	n := int64(strings.Count(s, from))
	if len(args) > 2 {
		if most, ok := args[2].(starlark.Int); ok {
			if m, ok := most.Int64(); ok && m >= 0 {
				n = min(n, m)
			}
		}
	}
	if err := b.visit(int(n)); err != nil {
		return err
	}
	if err := b.chargeEach(n, int64(len(to))+1); err != nil {
		return err
	}
	return b.copyCost(int64(len(s)), 1)
}

// pieceWeight is what one of the strings weighs that a string is split into.
const pieceWeight = 16 + 16 + 16

func linesCost(b *budget, recv starlark.Value, _ starlark.Tuple) error {
	s := string(recv.(starlark.String))
	if err := b.work(int64(len(s)) / (4 * bytesPerStep)); err != nil {
		return err
	}
	return b.piecesCost(strings.Count(s, "\n") + 1)
}

func (b *budget) piecesCost(n int) error {
	if err := b.chargeEach(int64(n), pieceWeight); err != nil {
		return err
	}
	return b.visit(n)
}

// split is split and rsplit. The native rsplit makes room for as many pieces as it is
// told, so it is told no more than there can be.
func split(b *budget, c *call) (starlark.Value, error) {
	s := string(c.recv.(starlark.String))
	sep, ok := textOf(c.args, 0)
	if ok && sep == "" {
		return c.pass() // an error
	}
	if err := b.work(int64(len(s)) / bytesPerStep); err != nil {
		return nil, err
	}
	n := 0
	if ok {
		if err := b.searchCost(len(s), len(sep)); err != nil {
			return nil, err
		}
		n = strings.Count(s, sep) + 1
	} else {
		n = fields(s)
	}
	if len(c.args) == 2 {
		if most, ok := c.args[1].(starlark.Int); ok && most.Sign() > 0 {
			if m, ok := most.Int64(); !ok || m > int64(n) {
				c.args = starlark.Tuple{c.args[0], starlark.MakeInt(n)}
			}
		}
		// An rsplit joins the rest of its pieces again.
		if err := b.copyCost(int64(len(s)), 1); err != nil {
			return nil, err
		}
	}
	if err := b.piecesCost(n); err != nil {
		return nil, err
	}
	return c.pass()
}

// fields counts the words of s.
func fields(s string) (n int) {
	space := true
	for _, r := range s {
		was := space
		space = unicode.IsSpace(r)
		if was && !space {
			n++
		}
	}
	return n
}

func formatString(b *budget, c *call) (starlark.Value, error) {
	args, kwargs, err := b.format(string(c.recv.(starlark.String)), c.args, c.kwargs)
	if err != nil {
		return nil, err
	}
	c.args, c.kwargs = args, kwargs
	return c.pass()
}

func join(b *budget, c *call) (starlark.Value, error) {
	if len(c.args) != 1 {
		return c.pass()
	}
	iterable, ok := c.args[0].(starlark.Iterable)
	if !ok {
		return c.pass()
	}
	iterable, err := b.sized(iterable, 0)
	if err != nil {
		return nil, err
	}
	c.args = starlark.Tuple{iterable}
	n, sep := 0, lenOf(c.recv)
	for v := range starlark.Elements(iterable) {
		s, ok := starlark.AsString(v)
		if !ok {
			break // an error
		}
		n += len(s) + sep
		if int64(n) > b.room() {
			break
		}
	}
	// The native join lets its text grow, without knowing how long it will be.
	if err := b.copyCost(3*int64(n), 1); err != nil {
		return nil, err
	}
	return c.pass()
}

var listMethods = map[string]metered{
	"clear":  {cost: listWalkCost},
	"extend": {call: extendList},
	"index":  {call: indexList},
	"insert": {cost: listMoveCost},
	"pop":    {cost: popCost},
	"remove": {call: removeFromList},
}

func listWalkCost(b *budget, recv starlark.Value, _ starlark.Tuple) error {
	return b.visit(recv.(*starlark.List).Len())
}

// popCost pays for closing the gap; there is none at the end.
func popCost(b *budget, recv starlark.Value, args starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	return listMoveCost(b, recv, args)
}

func listMoveCost(b *budget, recv starlark.Value, _ starlark.Tuple) error {
	if err := b.charge(2 * slotWeight); err != nil {
		return err
	}
	return b.work(int64(recv.(*starlark.List).Len()) * 16 / blockPerStep)
}

func extendList(b *budget, c *call) (starlark.Value, error) {
	if len(c.args) != 1 || len(c.kwargs) > 0 {
		return c.pass()
	}
	iterable, ok := c.args[0].(starlark.Iterable)
	if !ok {
		return c.pass()
	}
	if err := b.extend(c.recv.(*starlark.List), iterable, "extend"); err != nil {
		return nil, c.wrong(err)
	}
	return starlark.None, nil
}

func indexList(b *budget, c *call) (starlark.Value, error) {
	if len(c.args) == 0 || len(c.args) > 3 || len(c.kwargs) > 0 {
		return c.pass()
	}
	l := c.recv.(*starlark.List)
	var lo, hi starlark.Value
	if len(c.args) > 1 {
		lo = c.args[1]
	}
	if len(c.args) > 2 {
		hi = c.args[2]
	}
	start, end, err := spanOf(lo, hi, l.Len())
	if err != nil {
		return nil, c.wrong(err)
	}
	i, err := b.indexOf(c.args[0], l, start, end)
	if err == nil && i < 0 {
		err = errors.New("value not in list")
	}
	if err != nil {
		return nil, c.wrong(err)
	}
	return starlark.MakeInt(i), nil
}

func removeFromList(b *budget, c *call) (starlark.Value, error) {
	if len(c.args) != 1 || len(c.kwargs) > 0 {
		return c.pass()
	}
	l := c.recv.(*starlark.List)
	if err := mutable(l, "remove from"); err != nil {
		return nil, c.wrong(err)
	}
	i, err := b.indexOf(c.args[0], l, 0, l.Len())
	if err == nil && i < 0 {
		err = errors.New("element not found")
	}
	if err != nil {
		return nil, c.wrong(err)
	}
	if err := listMoveCost(b, l, nil); err != nil {
		return nil, err
	}
	pop, _ := l.Attr("pop")
	_, err = pop.(*starlark.Builtin).CallInternal(c.thread, starlark.Tuple{starlark.MakeInt(i)}, nil)
	return starlark.None, err
}

var dictMethods = map[string]metered{
	"clear":      {cost: clearCost},
	"get":        {cost: lookupArgCost},
	"items":      {cost: itemsCost},
	"keys":       {cost: itemsCost},
	"pop":        {cost: lookupArgCost},
	"popitem":    {cost: firstCost},
	"setdefault": {call: setDefault},
	"update":     {call: updateDict},
	"values":     {cost: itemsCost},
}

// clearCost pays for a table as large as it has ever been: it does not shrink.
func clearCost(b *budget, recv starlark.Value, _ starlark.Tuple) error {
	t := recv.(table)
	if b.large[t] == nil && t.Len() > smallTable {
		if _, err := b.resketch(t, nil); err != nil {
			return err
		}
	}
	return b.work(b.peak(t) / 4)
}

func lookupArgCost(b *budget, recv starlark.Value, args starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	return b.lookup(recv.(table), args[0])
}

func itemsCost(b *budget, recv starlark.Value, _ starlark.Tuple) error {
	n := recv.(*starlark.Dict).Len()
	if err := b.chargeEach(int64(n)+1, 16+16+24+24+16); err != nil {
		return err
	}
	return b.visit(n)
}

// firstCost pays for deleting the first key.
func firstCost(b *budget, recv starlark.Value, _ starlark.Tuple) error {
	for k := range starlark.Elements(recv.(starlark.Iterable)) {
		return b.lookup(recv.(table), k)
	}
	return nil
}

func setDefault(b *budget, c *call) (starlark.Value, error) {
	if len(c.args) == 0 {
		return c.pass()
	}
	d := c.recv.(*starlark.Dict)
	n := d.Len()
	weight, err := b.insertCost(n, c.args[0])
	if err != nil {
		return nil, err
	}
	v, err := c.pass()
	if err != nil {
		return nil, err
	}
	return v, b.inserted(d, n, c.args[0], weight)
}

func updateDict(b *budget, c *call) (starlark.Value, error) {
	if len(c.args) > 1 {
		return c.pass()
	}
	if err := b.fill(c.recv.(*starlark.Dict), c.args, c.kwargs); err != nil {
		return nil, c.wrong(err)
	}
	return starlark.None, nil
}

// fill adds the entries of a dict or of pairs, then the keyword arguments.
func (b *budget) fill(d *starlark.Dict, args starlark.Tuple, kwargs []starlark.Tuple) error {
	if len(args) == 1 {
		if err := b.fillFrom(d, args[0]); err != nil {
			return err
		}
	}
	seen := map[starlark.Value]bool{}
	for _, kv := range kwargs {
		if seen[kv[0]] {
			return fmt.Errorf("duplicate keyword arg: %v", kv[0])
		}
		seen[kv[0]] = true
		if err := b.charge(tinyWeight); err != nil {
			return err
		}
		if err := b.setKey(d, kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}

func (b *budget) fillFrom(d *starlark.Dict, from starlark.Value) error {
	switch from := from.(type) {
	case *starlark.Dict:
		return b.update(d, from, "insert into")
	case starlark.IterableMapping:
		for _, item := range from.Items() {
			if err := b.setKey(d, item[0], item[1]); err != nil {
				return err
			}
		}
		return nil
	case starlark.Iterable:
		return b.fillPairs(d, from)
	}
	return fmt.Errorf("got %s, want iterable", from.Type())
}

func (b *budget) fillPairs(d *starlark.Dict, from starlark.Iterable) error {
	i := 0
	for pair := range starlark.Elements(from) {
		if err := b.work(1); err != nil {
			return err
		}
		p, ok := pair.(starlark.Iterable)
		if !ok {
			return fmt.Errorf("dictionary update sequence element #%d is not iterable (%s)", i, pair.Type())
		}
		n := starlark.Len(pair)
		if n < 0 {
			return fmt.Errorf("dictionary update sequence element #%d has unknown length (%s)", i, pair.Type())
		}
		if n != 2 {
			return fmt.Errorf("dictionary update sequence element #%d has length %d, want 2", i, n)
		}
		var kv []starlark.Value
		for v := range starlark.Elements(p) {
			kv = append(kv, v)
		}
		if err := b.charge(2 * tinyWeight); err != nil { // boxes of what an iterator makes
			return err
		}
		if err := b.setKey(d, kv[0], kv[1]); err != nil {
			return err
		}
		i++
	}
	return nil
}

var setMethods = map[string]metered{
	"add":                  {call: addToSet},
	"clear":                {cost: clearCost},
	"difference":           {call: setOperation},
	"discard":              {cost: lookupArgCost},
	"intersection":         {call: setOperation},
	"issubset":             {call: setOperation},
	"issuperset":           {call: setOperation},
	"pop":                  {cost: firstCost},
	"remove":               {cost: lookupArgCost},
	"symmetric_difference": {call: setOperation},
	"union":                {call: union},
	"update":               {call: updateSet},
}

func addToSet(b *budget, c *call) (starlark.Value, error) {
	if len(c.args) != 1 || len(c.kwargs) > 0 {
		return c.pass()
	}
	s := c.recv.(*starlark.Set)
	n := s.Len()
	weight, err := b.insertCost(n, c.args[0])
	if err != nil {
		return nil, err
	}
	if _, err := c.pass(); err != nil {
		return nil, err
	}
	return starlark.None, b.inserted(s, n, c.args[0], weight)
}

// setOperation makes a set of the other operand first, so that it is paid for like any other.
func setOperation(b *budget, c *call) (starlark.Value, error) {
	if len(c.args) == 0 && len(c.kwargs) == 0 {
		return nil, fmt.Errorf("%s: got 0 arguments, want 1", c.name)
	}
	other, ok := c.args[0].(starlark.Iterable)
	if len(c.args) != 1 || !ok {
		return c.pass()
	}
	set, ok := other.(*starlark.Set)
	if !ok {
		set = new(starlark.Set)
		if err := b.insertAll(set, other); err != nil {
			return nil, c.wrong(err)
		}
		c.args = starlark.Tuple{set}
	}
	if err := b.tablesCost(c.recv.(table), set); err != nil {
		return nil, err
	}
	return c.pass()
}

func union(b *budget, c *call) (starlark.Value, error) {
	recv := c.recv.(*starlark.Set)
	if err := b.charge(dictWeight); err != nil {
		return nil, err
	}
	if err := b.tableCost(recv); err != nil {
		return nil, err
	}
	clone, err := recv.Union(starlark.Tuple(nil).Iterate())
	if err != nil {
		return nil, err
	}
	c.recv = clone
	if _, err := updateSet(b, c); err != nil {
		return nil, err
	}
	return clone, nil
}

func updateSet(b *budget, c *call) (starlark.Value, error) {
	if len(c.kwargs) > 0 {
		return c.pass()
	}
	for i, arg := range c.args {
		iterable, ok := arg.(starlark.Iterable)
		if !ok {
			return nil, fmt.Errorf("%s: argument #%d is not iterable: %s", c.name, i+1, arg.Type())
		}
		if err := b.insertAll(c.recv.(*starlark.Set), iterable); err != nil {
			return nil, c.wrong(err)
		}
	}
	return starlark.None, nil
}

// insertAll adds the elements of v to s.
func (b *budget) insertAll(s *starlark.Set, v starlark.Iterable) error {
	each := tinyWeight
	switch v.(type) {
	case *starlark.List, starlark.Tuple, *starlark.Dict, *starlark.Set:
		each = 0
	}
	i := 0
	for k := range starlark.Elements(v) {
		if i++; i%elemsPerStep == 0 {
			if err := b.work(2); err != nil {
				return err
			}
		}
		if err := b.charge(int64(each)); err != nil {
			return err
		}
		if err := b.insert(s, k); err != nil {
			return err
		}
	}
	return nil
}
