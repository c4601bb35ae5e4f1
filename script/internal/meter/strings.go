package meter

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

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

// scanCost charges for visiting every character.
func scanCost(b *Budget, recv starlark.Value, _ starlark.Tuple) error {
	return b.Work(int64(lenOf(recv)) / bytesPerStep)
}

// mapCost charges for a text whose characters are mapped to others, which may be longer.
func mapCost(b *Budget, recv starlark.Value, _ starlark.Tuple) error {
	s := string(recv.(starlark.String))
	if err := b.Work(int64(len(s)) / bytesPerStep); err != nil {
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

// searchesCost charges for one search of the first argument.
func searchesCost(b *Budget, recv starlark.Value, args starlark.Tuple) error {
	sub, _ := textOf(args, 0)
	n := lenOf(recv)
	if err := b.Work(int64(n) / bytesPerStep); err != nil {
		return err
	}
	if err := b.Charge(4 * tinyWeight); err != nil {
		return err
	}
	return b.searchCost(n, len(sub))
}

// prefixCost charges for comparing the ends of a string with one or many.
func prefixCost(b *Budget, recv starlark.Value, args starlark.Tuple) error {
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

// stripCost charges for looking up every character among those to strip.
func stripCost(b *Budget, recv starlark.Value, args starlark.Tuple) error {
	chars, _ := textOf(args, 0)
	return b.Work(int64(lenOf(recv)) * int64(len(chars)+1) / bytesPerStep)
}

// replaceCost charges for the new text.
func replaceCost(b *Budget, recv starlark.Value, args starlark.Tuple) error {
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

// pieceWeight is for each string that a string is split into, in bytes.
const pieceWeight = 16 + 16 + 16

func linesCost(b *Budget, recv starlark.Value, _ starlark.Tuple) error {
	s := string(recv.(starlark.String))
	if err := b.Work(int64(len(s)) / (4 * bytesPerStep)); err != nil {
		return err
	}
	return b.piecesCost(strings.Count(s, "\n") + 1)
}

func (b *Budget) piecesCost(n int) error {
	if err := b.chargeEach(int64(n), pieceWeight); err != nil {
		return err
	}
	return b.visit(n)
}

// split implements split and rsplit. The native rsplit allocates for as many pieces as its argument says, so that is
// reduced to what is possible.
func split(b *Budget, c *call) (starlark.Value, error) {
	s := string(c.recv.(starlark.String))
	sep, ok := textOf(c.args, 0)
	if ok && sep == "" {
		return c.pass() // an error
	}
	if err := b.Work(int64(len(s)) / bytesPerStep); err != nil {
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

func formatString(b *Budget, c *call) (starlark.Value, error) {
	args, kwargs, err := b.format(string(c.recv.(starlark.String)), c.args, c.kwargs)
	if err != nil {
		return nil, err
	}
	c.args, c.kwargs = args, kwargs
	return c.pass()
}

func join(b *Budget, c *call) (starlark.Value, error) {
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
	n, sep, room := 0, lenOf(c.recv), b.room()
	for v := range starlark.Elements(iterable) {
		s, ok := starlark.AsString(v)
		if !ok {
			break // an error
		}
		n += len(s) + sep
		if int64(n) > room {
			break
		}
	}
	// The native join lets its text grow, without knowing how long it will be.
	if err := b.copyCost(3*int64(n), 1); err != nil {
		return nil, err
	}
	return c.pass()
}
