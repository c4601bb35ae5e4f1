package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/migrate/internal/star"
)

// result writes the return of the result.
func (c *clean) result() error {
	if c.w.Output == nil {
		c.give(c.lastOutput(c.w.Levels()))
		return nil
	}
	entries, err := c.properties(c.w.Output.Properties, c.w.Output.Required, "")
	if err != nil {
		return err
	}
	c.emit(star.Return(withoutNone(entries)))
	return nil
}

// lastOutput is the output of the last step that has run, in the order of levels and of the file.
func (c *clean) lastOutput(levels [][]*step) star.Expr {
	if len(levels) == 0 {
		return star.None()
	}
	level := levels[len(levels)-1]
	s := level[len(level)-1]
	if len(level) > 1 {
		c.remark("ToolHive returned the output of whichever of these steps ended last.")
		c.notes = append(c.notes, Note{Pos: c.w.Pos, Msg: "the result is the output of step " + s.Id + ", not of whichever step ends last"})
	}
	c.refs[nil] = append(c.refs[nil], s)
	output, _ := c.stepField(s, []string{"steps", s.Id, "output"})
	if s.Skips() && s.Level+1 < len(c.w.Levels()) {
		output = c.answerWithoutSkipping(s)
	}
	var ran star.Expr
	switch tried := star.Attr(star.Name(c.tried(s)), "ok"); {
	case s.Condition == nil && !c.isCaught(s):
		return output
	case c.isRecord(s):
		ran = star.Op("==", star.Attr(star.Name(c.vars[s]), "status"), star.Str("completed"))
	case s.Condition == nil:
		ran = tried
	case c.isCaught(s):
		ran = star.Op("and", star.Name(c.ran(s)), tried)
	default:
		ran = star.Name(c.ran(s))
	}
	c.see(s, []string{"steps", s.Id, "status"})
	if len(level) > 1 {
		levels = append(slices.Clone(levels[:len(levels)-1]), level[:len(level)-1])
	} else {
		levels = levels[:len(levels)-1]
	}
	return star.If(ran, output, c.lastOutput(levels).Bare())
}

func (c *clean) properties(list []*property, required []string, path string) (entries []star.Entry, err error) {
	for _, p := range list {
		var e star.Expr
		if p.Properties != nil {
			inner, err := c.properties(p.Properties, nil, path+segment(p.Name)+".")
			if err != nil {
				return nil, err
			}
			e = withoutNone(inner)
		} else if e, err = c.property(p, path); err != nil {
			return nil, err
		}
		empty := map[string]star.Expr{"object": star.Dict(), "array": star.ListOf()}[p.Kind]
		switch needed := slices.Contains(required, p.Name); {
		case e.Kind == star.Nothing && !needed:
			continue
		case e.Kind == star.Nothing:
			e = empty
		case e.Maybe && needed:
			e = star.Op("or", e, empty)
		}
		entries = append(entries, star.Entry{Key: p.Name, Value: e})
	}
	return entries, nil
}

// property writes one value of the result.
func (c *clean) property(p *property, path string) (star.Expr, error) {
	v := &view{c: c}
	n := c.native(v, p.Name+"_text")
	var e star.Expr
	encoded := false
	if p.Kind == "object" || p.Kind == "array" {
		e, encoded = n.Encoded(p.Value.Parsed)
	}
	if !encoded {
		e = n.Value(p.Value.Parsed)
	}
	c.define(n)
	if e.Literal && p.Kind != "string" {
		return c.typedLiteral(p, e)
	}
	if d, ok := p.Usable(); ok {
		return c.withDefault(p, e, encoded, constantOf(d), path+segment(p.Name)), nil
	}
	return c.typed(p, e, encoded), nil
}

// typed writes a value as the type of a property.
func (c *clean) typed(p *property, e star.Expr, encoded bool) star.Expr {
	switch p.Kind {
	case "string":
		return asText(e)
	case "integer":
		if e.Kind == star.Int && !e.Maybe {
			return e
		}
		return star.Call("int", e).Is(star.Int)
	case "number":
		if (e.Kind == star.Int || e.Kind == star.Number) && !e.Maybe {
			return e
		}
		return star.Call("float", e).Is(star.Number)
	case "boolean":
		if e.Kind == star.Bool && !e.Maybe {
			return e
		}
		if when, ok := whenTrue(e); ok {
			return when
		}
		words := star.Tuple(star.Str("true"), star.Str("t"), star.Str("1"))
		return star.Op("in", star.Method(asText(e), "lower"), words).Is(star.Bool)
	}
	if encoded {
		return e
	}
	return star.Call("json.decode", asText(e))
}

// withDefault writes a value of the output that has a default, for when it is missing, cannot be computed or
// has another type.
func (c *clean) withDefault(p *property, e star.Expr, encoded bool, fallback star.Expr, name string) star.Expr {
	fits := kinds[p.Kind] == e.Kind || p.Kind == "number" && e.Kind == star.Int
	switch {
	case e.Kind == star.Nothing && !encoded:
		return fallback
	case e.Risky:
	case fits && (encoded || !e.Maybe): // for the engine null has this type, so the default is not used
		return e
	case fits && e.IsEntry() && !encoded:
		return e.Or(fallback).Is(e.Kind)
	case p.Kind == "string" && e.Maybe:
		return star.Call("text", e, fallback).Is(star.Text)
	case p.Kind == "string":
		return asText(e)
	}
	text := asText(e)
	switch {
	case encoded:
		text = star.Call("json.encode", e)
	case p.Kind == "string" && e.Maybe:
		text = star.Call("text", e, fallback)
	}
	if e.Risky {
		text = star.Lambda(text)
	}
	fn := "as_" + p.Kind
	c.loads[fn] = true
	out := star.Call(fn, text, star.Arg("name", star.Str(name)), star.Arg("default", fallback))
	out.Maybe = encoded && e.Maybe
	return out
}

// typedLiteral writes a value that is no template.
func (c *clean) typedLiteral(p *property, e star.Expr) (star.Expr, error) {
	if p.Kind == "boolean" {
		if b, err := strconv.ParseBool(e.Text); err == nil {
			return constantOf(b), nil
		}
	}
	if (p.Kind == "object" || p.Kind == "array") && strings.TrimSpace(e.Text) == "null" {
		return star.None(), nil
	}
	fixed := &property{Kind: p.Kind, Fallback: &value{Data: e.Text}}
	v, err := fixed.Coerced()
	if err == nil {
		return constantOf(v), nil
	}
	if d, ok := p.Usable(); ok {
		return constantOf(d), nil
	}
	return star.Call("fail", star.Str(fmt.Sprintf("output %s: %v", p.Name, err))), nil
}
