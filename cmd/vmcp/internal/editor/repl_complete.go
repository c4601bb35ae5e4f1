package editor

import (
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// toolCalls are the builtins with a parameter that names a tool, and the positions of that and of the tool's arguments.
var toolCalls = func() map[string]struct{ tool, args int } {
	calls := map[string]struct{ tool, args int }{}
	for _, b := range builtins.Table() {
		if b.Tool.Name != "" {
			calls[b.Name] = struct{ tool, args int }{b.Tool.Index, b.Args.Index}
		}
	}
	return calls
}()

// complete returns the word that a text ends in, and its completions.
func (s *session) complete(text string) (word string, candidates []string) {
	if strings.HasPrefix(text, ":") {
		return s.completeCommand(text)
	}
	c := At(text)
	switch c.Kind {
	case name, Argument:
		candidates = s.nameCandidates()
	case field:
		candidates = fieldsOf(s.lookup(c.Of))
	case index:
		for _, k := range s.keysOf(c.Of) {
			candidates = append(candidates, k+closing(c.Quote)+"]")
		}
	case inText, key:
		candidates = s.textCandidates(c)
	}
	return c.Word, candidates
}

// closing is the quote that ends a string with this beginning.
func closing(quote string) string { return strings.TrimLeft(quote, "rb") }

func (s *session) nameCandidates() []string {
	names := maps.Clone(map[string]bool{"True": true, "False": true, "None": true, "lambda": true, "return": true})
	for name := range starlark.Universe {
		names[name] = true
	}
	for name := range builtins.All() {
		names[name] = true
	}
	for name := range s.names {
		names[name] = true
	}
	return slices.Collect(maps.Keys(names))
}

// textCandidates complete strings: names of tools where a builtin expects one, and names of a tool's arguments.
func (s *session) textCandidates(c Context) (candidates []string) {
	call, ok := toolCalls[c.Call.String()]
	if ok && c.Kind == inText && (c.Key == "" && c.Arg == call.tool || c.Key == "name" || c.Key == "tool") && c.Depth == 0 {
		for _, name := range s.host.names() {
			candidates = append(candidates, name+closing(c.Quote))
		}
		if strings.Contains(c.Word, ".") {
			for name := range s.o.Origins {
				candidates = append(candidates, name+closing(c.Quote))
			}
		}
		return candidates
	}
	input := s.input(c, ok)
	if c.Kind != key || c.Depth != 1 || input == nil {
		return nil
	}
	jsonscan.Each(jsonscan.Get(input, "properties"), func(name, _ []byte) bool {
		if !slices.Contains(c.Keys, string(name)) {
			candidates = append(candidates, string(name)+closing(c.Quote)+": ")
		}
		return true
	})
	return candidates
}

// input is the input schema of the tool whose arguments a dict is.
func (s *session) input(c Context, toolCall bool) []byte {
	name := c.Tool
	if !toolCall {
		if c.Call.String() != runName || s.tool == nil {
			return nil
		}
		name = s.tool.Name
	}
	if t := s.host.tool(name); t != nil {
		return t.input
	}
	return nil
}

// lookup evaluates names, fields and keys, which has no side effects; nil if there is no such value.
func (s *session) lookup(p *Path) starlark.Value {
	if p == nil || p.Call {
		return nil
	}
	v := s.names[p.Name]
	if v == nil {
		v = builtins.All()[p.Name]
	}
	for _, step := range p.Steps {
		if v = replTaken(v, step); v == nil {
			return nil
		}
	}
	return v
}

func replTaken(v starlark.Value, step Step) starlark.Value {
	switch v := v.(type) {
	case starlark.HasAttrs:
		if step.Field {
			a, err := v.Attr(step.Name)
			if err != nil {
				return nil
			}
			return a
		}
		if d, ok := v.(*starlark.Dict); ok {
			x, _, _ := d.Get(starlark.String(step.Name)) // a string is always hashable
			return x
		}
		if l, ok := v.(*starlark.List); ok && step.Name == "" && l.Len() > 0 {
			return l.Index(0)
		}
	}
	return nil
}

func fieldsOf(v starlark.Value) []string {
	if h, ok := v.(starlark.HasAttrs); ok {
		return h.AttrNames()
	}
	return nil
}

// keysOf are the keys of a dict, or the fields of a tool's result by its output schema.
func (s *session) keysOf(p *Path) (keys []string) {
	if d, ok := s.lookup(p).(*starlark.Dict); ok {
		for _, k := range d.Keys() {
			if text, ok := starlark.AsString(k); ok {
				keys = append(keys, text)
			}
		}
		return keys
	}
	if p == nil || !p.Call || s.host.tool(p.Tool) == nil {
		return nil
	}
	output := s.host.tool(p.Tool).output
	for _, step := range p.Steps {
		if step.Name == "" {
			output = jsonscan.Get(output, "items")
		} else {
			output = jsonscan.GetPath(output, "properties", step.Name)
		}
	}
	jsonscan.Each(jsonscan.Get(output, "properties"), func(name, _ []byte) bool {
		keys = append(keys, string(name))
		return true
	})
	return keys
}

// extend is the text after Tab: with the longest common prefix of the candidates, and the
// candidates themselves when that adds nothing.
func extend(text, word string, candidates []string) (longer string, choices []string) {
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(c string) bool { return !strings.HasPrefix(c, word) })
	if len(candidates) == 0 {
		return text, nil
	}
	slices.Sort(candidates)
	candidates = slices.Compact(candidates)
	common := candidates[0]
	for _, c := range candidates[1:] {
		for !strings.HasPrefix(c, common) {
			common = common[:len(common)-1]
		}
	}
	if common == word && len(candidates) > 1 {
		return text, candidates
	}
	return strings.TrimSuffix(text, word) + common, nil
}
