package types

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/schema"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// This part of the package checks values of a script against JSON Schemas, as far as its text shows them: arguments against the
// input schemas of tools, results against the declared output.

// checker checks values against schemas.
type checker struct {
	// Type returns the type of an expression; Seen the one that was last computed for it, Never if none was.
	Type, Seen func(syntax.Expr) Type
	// Set reports whether a key may be set in some dict that the text does not show.
	Set    func(key string) bool
	Report func(FindingProblem)
}

// value is a value that is checked against a schema.
type value struct {
	Code    string      // of all problems; "" for those of arguments
	Subject string      // the owner of the schema, for messages
	Whole   syntax.Node // the node with which missing members are reported
	Script  bool        // it is the schema of a scripted tool
	Skip    string      // an argument that is given elsewhere
	Output  bool        // of the tool that is checked
	path    string
}

func (c *checker) report(code string, n syntax.Node, format string, args ...any) {
	c.Report(FindingProblem{Code: code, Node: n, Message: fmt.Sprintf(format, args...)})
}

func (f value) codeFor(code string) string {
	switch {
	case f.Code != "":
		return f.Code
	case f.Script:
		return "tool-contract"
	}
	return code
}

// name returns the name of the value in messages.
func (f value) name() string {
	switch {
	case f.path != "":
		return f.path
	case f.Output:
		return "output"
	}
	return "args"
}

// below returns a member of the value.
func (f value) below(name string) value {
	if f.path != "" {
		name = f.path + "." + name
	}
	f.path = name
	return f
}

// Check reports how a value does not fit a schema. x is the expression where it is written, or nil.
func (c *checker) Check(f value, x syntax.Expr, t Type, s *Schema) {
	x = meter.Unparen(x)
	if cond, ok := x.(*syntax.CondExpr); ok { // each branch separately
		if a, b := c.Seen(cond.True), c.Seen(cond.False); !a.IsNever() && !b.IsNever() {
			c.Check(f, cond.True, a, s)
			c.Check(f, cond.False, b, s)
			return
		}
	}
	if t.IsAny() || t.IsNever() || s == nil {
		return
	}
	var at syntax.Node = f.Whole
	if x != nil {
		at = x
	}
	if s.Type.IsAny() && len(s.Alternatives) == 0 && !s.Known {
		return
	}
	if len(s.Alternatives) == 0 && !s.Type.IsAny() && t.Every(func(a *Atom) bool {
		return isJSON(a) && !s.Type.Some(func(b *Atom) bool { return kindFits(a, b) })
	}) {
		c.otherType(f, x, at, t, s)
		return
	}
	if len(s.Alternatives) > 0 {
		c.fitAlternatives(f, at, t, s)
		return
	}
	c.noneValue(f, x, t, s)
	c.fitValues(f, at, t, s)
	only := t.Without(None).Only()
	if only == nil {
		return
	}
	switch only.Kind {
	case Dict:
		c.fitDict(f, x, at, only, s)
	case List:
		c.fitList(f, x, only, s)
	}
}

// otherType reports a value of another type than the schema's, unless the call converts it.
func (c *checker) otherType(f value, x syntax.Expr, at syntax.Node, t Type, s *Schema) {
	may, literal := false, false
	if f.Code == "" {
		may, literal = converted(t, s)
	}
	switch {
	case may && literal && x != nil:
		c.Report(FindingProblem{Code: f.codeFor("argument-type"), Node: at, Warning: true,
			Message: fmt.Sprintf("%s wants %s, this is %s that the call converts", f.name(), wantedType(s), article(t))})
	case may && x != nil && t.Some(unexpectedNone):
		c.maybeNone(f, x, s)
	case may:
	case f.Skip == "" || x != nil:
		c.report(f.codeFor("argument-type"), at, "%s wants %s, this is %s", f.name(), wantedType(s), article(t))
	}
}

// converted reports whether a call may convert a value, if it is not None, to the one type of scalars that a schema has
// (schema.Convert), and whether some of it is a literal, which can be written as what is wanted.
func converted(t Type, s *Schema) (may, literal bool) {
	t = t.Without(None)
	if t.IsNever() || s.Type.Without(None).IsNever() {
		return false, false
	}
	want := ""
	for _, kind := range []struct {
		name string
		of   Type
	}{{"string", s.Type.Without(Text)}, {"boolean", s.Type.Without(boolKind)}, {"integer", s.Type.Without(Int)}, {"number", s.Type.Without(floatKind).Without(Int)}} {
		if kind.of.Without(None).IsNever() {
			want = kind.name
			break
		}
	}
	may = want != "" && t.Every(func(a *Atom) bool {
		literal = literal || a.Lit != nil
		if want == "string" {
			return a.Kind == Int || a.Kind == floatKind || a.Kind == boolKind
		}
		text, known := a.Lit.(string)
		return a.Kind == Text && (!known || schema.IsWritten(want, text))
	})
	return may, literal
}

// kindFits reports whether a value of one kind may be valid for a schema of another.
func kindFits(a, b *Atom) bool {
	switch {
	case a.Kind == tuple:
		return b.Kind == List
	case a.Kind == floatKind && b.Kind == Int: // 2.0 is an integer in JSON Schema
		f, known := a.Lit.(float64)
		return !known || f == float64(int64(f))
	case a.Kind == Int && b.Kind == floatKind:
		return true
	}
	return a.Kind == b.Kind
}

// wantedType names a schema's type in messages.
func wantedType(s *Schema) string {
	if len(s.Enum) > 0 {
		return enumText(s.Enum)
	}
	if s.Type.Is(Int, floatKind) && s.Type.Has(floatKind) {
		return "a number"
	}
	words := article(s.Type)
	words = strings.NewReplacer("an integer, a float", "a number", "an integer or a float", "a number", "a dict", "an object").Replace(words)
	return words
}

func enumText(values []any) string {
	var list []string
	for _, v := range values {
		s, ok := v.(string)
		if !ok {
			s = show(v)
		}
		list = append(list, s)
	}
	return list2(list, "or")
}

// noneValue warns about a value that may be None where the schema does not allow null.
func (c *checker) noneValue(f value, x syntax.Expr, t Type, s *Schema) {
	if x == nil || f.Output || !t.Some(unexpectedNone) || s.Type.IsAny() || s.Type.Has(None) {
		return
	}
	if rest := t.Without(None); rest.IsNever() || !rest.Every(func(a *Atom) bool { return s.Type.Some(func(b *Atom) bool { return kindFits(a, b) }) }) {
		return
	}
	c.maybeNone(f, x, s)
}

// maybeNone warns about an expression that may be None.
func (c *checker) maybeNone(f value, x syntax.Expr, s *Schema) {
	p := FindingProblem{Code: "maybe-none", Warning: true, Node: x, Message: fmt.Sprintf("%s may be None here, %s of %s wants %s", describe(x), f.name(), f.Subject, wantedType(s)), Hint: "without_none({...}) leaves it out"}
	c.Report(p)
}

// fitAlternatives reports a value whose kind fits none of the alternatives.
func (c *checker) fitAlternatives(f value, at syntax.Node, t Type, s *Schema) {
	all := Never
	for _, alt := range s.Alternatives {
		all = Join(all, alt.Type)
	}
	if all.IsAny() || !s.Type.IsAny() && len(s.Props) > 0 {
		return
	}
	if t.Every(func(a *Atom) bool {
		return isJSON(a) && !all.Some(func(b *Atom) bool { return kindFits(a, b) })
	}) {
		c.report(f.codeFor("argument-type"), at, "%s wants %s, this is %s", f.name(), wantedType(&Schema{Type: all}), article(t))
	}
}

// fitValues reports literals that the schema does not allow.
func (c *checker) fitValues(f value, at syntax.Node, t Type, s *Schema) {
	why := ""
	if !t.Every(func(a *Atom) bool {
		if a.Kind == None && s.Type.Has(None) {
			return false
		}
		if a.Lit == nil {
			return false
		}
		why = valueProblem(a.Lit, s)
		return why != ""
	}) {
		return
	}
	a := t.Atoms()[0]
	p := FindingProblem{Code: f.codeFor("argument-value"), Node: at, Message: fmt.Sprintf("%s is %s, this is %s", f.name(), why, show(a.Lit))}
	if text, ok := a.Lit.(string); ok && len(s.Enum) > 0 {
		var names []string
		for _, v := range s.Enum {
			if n, ok := v.(string); ok {
				names = append(names, n)
			}
		}
		if near := display.Nearest(text, names); near != "" {
			p.Hint, p.Fix = fmt.Sprintf("did you mean %q?", near), quoted(near)
		}
	}
	c.Report(p)
}

// valueProblem returns what a literal would have to be; "" if it is valid.
func valueProblem(lit any, s *Schema) string {
	if len(s.Enum) > 0 {
		if slices.ContainsFunc(s.Enum, func(v any) bool { return sameLit(v, lit) }) {
			return ""
		}
		return enumText(s.Enum)
	}
	if n := number(lit); n != nil {
		switch {
		case s.Min != nil && n.Cmp(s.Min) < 0:
			return "at least " + s.Min.Text('g', -1)
		case s.Max != nil && n.Cmp(s.Max) > 0:
			return "at most " + s.Max.Text('g', -1)
		case s.Above != nil && n.Cmp(s.Above) <= 0:
			return "more than " + s.Above.Text('g', -1)
		case s.Below != nil && n.Cmp(s.Below) >= 0:
			return "less than " + s.Below.Text('g', -1)
		}
	}
	if text, ok := lit.(string); ok {
		n := utf8.RuneCountInString(text)
		switch {
		case s.MinLength != nil && n < *s.MinLength:
			return "at least " + plural(*s.MinLength, "character")
		case s.MaxLength != nil && n > *s.MaxLength:
			return "at most " + plural(*s.MaxLength, "character")
		}
	}
	return ""
}

// fitDict checks the fields of a dict against the properties.
func (c *checker) fitDict(f value, x syntax.Expr, at syntax.Node, a *Atom, s *Schema) {
	var missing []string
	misspelt := map[string]bool{}
	for _, field := range a.Fields {
		if _, known := s.Prop(field.Name); !known {
			misspelt[closeTo(field.Name, s.Names())] = true
		}
	}
	for _, p := range s.Props {
		field, has := a.Field(p.Name)
		switch {
		case has && (field.Presence == required || field.Value != nil):
			c.Check(f.below(p.Name), valueAt(x, field), field.Type, p.Schema)
		case !has && p.Required && !p.Default && !a.Open && (a.Role == ownRole || f.Output) && p.Name != f.Skip && !c.Set(p.Name) && !misspelt[p.Name]:
			missing = append(missing, p.Name)
		}
	}
	if len(missing) > 0 {
		c.lacks(f, x, at, missing)
	}
	if a.Role != ownRole {
		return
	}
	for _, field := range a.Fields {
		if _, known := s.Prop(field.Name); known || len(s.Props) == 0 && !s.Closed {
			continue
		}
		near := closeTo(field.Name, s.Names())
		if s.Closed || s.Known && near != "" && !hasField(a, near) {
			c.unknownField(f, x, at, field, s, near)
		}
	}
}

// closeTo returns the name that was probably meant; "" if none is close.
func closeTo(name string, names []string) string {
	near := display.Nearest(name, names)
	if len(name) < 4 || len(near) < 4 || near == name {
		return ""
	}
	return near
}

func hasField(a *Atom, name string) bool { _, ok := a.Field(name); return ok }

// valueAt returns where the value of a field is written: within x, or elsewhere in the text.
func valueAt(x syntax.Expr, field Field) syntax.Expr {
	if field.Value != nil {
		return field.Value
	}
	if field.Key != nil {
		return field.Key
	}
	return x
}

// lacks reports missing members, once for a position.
func (c *checker) lacks(f value, x syntax.Expr, at syntax.Node, missing []string) {
	list := list2(missing, "and")
	if f.path == "" && !f.Output {
		word := "the argument"
		if len(missing) > 1 {
			word = "the arguments"
		}
		c.report(f.codeFor("argument-missing"), f.Whole, "%s needs %s %s", f.Subject, word, list)
		return
	}
	if f.Output && x == nil {
		at = f.Whole
	}
	c.report(f.codeFor("argument-missing"), at, "%s also needs %s", f.name(), list)
}

func (c *checker) unknownField(f value, x syntax.Expr, at syntax.Node, field Field, s *Schema, near string) {
	if field.Key != nil {
		at = field.Key
	} else if x == nil {
		at = f.Whole
	}
	p := FindingProblem{Code: f.codeFor("argument-unknown"), Node: at}
	switch {
	case f.Output:
		p.Message = fmt.Sprintf("%s has no %s", f.name(), field.Name)
	case f.path != "":
		p.Message = fmt.Sprintf("%s of %s has no %s", f.path, f.Subject, field.Name)
	default:
		p.Message = fmt.Sprintf("%s has no argument %q", f.Subject, field.Name)
	}
	if near != "" && !hasFieldNamed(s, field.Name) {
		p.Hint, p.Fix, p.Sure = "did you mean "+near+"?", quoted(near), display.Only(field.Name, s.Names())
		if !f.Output {
			p.Hint = fmt.Sprintf("did you mean %q?", near)
		}
	} else {
		p.Message += "; it has " + strings.Join(s.Names(), ", ")
	}
	c.Report(p)
}

func hasFieldNamed(s *Schema, name string) bool { _, ok := s.Prop(name); return ok }

// fitList checks the elements of a list against their schema.
func (c *checker) fitList(f value, x syntax.Expr, a *Atom, s *Schema) {
	list := meter.Elements(x)
	if _, isList := x.(*syntax.ListExpr); isList {
		switch {
		case s.MinItems != nil && len(list) < *s.MinItems:
			c.report(f.codeFor("argument-value"), x, "%s has at least %s, this has %d", f.name(), plural(*s.MinItems, "element"), len(list))
		case s.MaxItems != nil && len(list) > *s.MaxItems:
			c.report(f.codeFor("argument-value"), x, "%s has at most %s, this has %d", f.name(), plural(*s.MaxItems, "element"), len(list))
		}
	}
	if s.Items == nil {
		return
	}
	if list != nil {
		for i, el := range list {
			g := f
			g.path = fmt.Sprintf("%s[%d]", f.path, i)
			c.Check(g, el, c.Type(el), s.Items)
		}
		return
	}
	g := f
	g.path = f.path + "[]"
	if comp, ok := x.(*syntax.Comprehension); ok {
		c.Check(g, comp.Body, a.Elem, s.Items)
		return
	}
	c.Check(g, x, a.Elem, s.Items)
}
