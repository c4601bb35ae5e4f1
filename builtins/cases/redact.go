package cases

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/internal/secret"
)

// Redaction follows values. First the secret values are marked: by the schemas of tools and forms, by pointers, by the
// names of members. Then every text in a marked value is replaced wherever else it occurs in the case, in any
// encoding: content repeats structured content, scripts pass tokens on, errors quote them. Equal texts get equal
// placeholders, so that a replay of the case still sees them passed on.

// Rules define which values of a case are secret.
type Rules struct {
	// Pointers are JSON pointers into the case, with * for any one part. Below /effects/N/result they may omit
	// structuredContent.
	Pointers []string
	// Schemas returns the schemas of a tool's arguments and of its structured result, nil for none. The tool is the
	// recorded one or one that it calls, by the name in the script. May be nil.
	Schemas func(tool string) (input, output json.RawMessage)
	// Keep leaves all values unchanged except for what Text hides.
	Keep bool
	// Text hides the secrets of the configuration. May be nil.
	Text func(string) string
}

// Redact replaces the secrets. The case does not share texts with the recorder afterwards.
func (c *Case) Redact(rules Rules) error {
	m := &marker{keep: rules.Keep, numbers: map[string]int{}, digits: map[string]bool{}}
	for _, p := range rules.Pointers {
		m.patterns = append(m.patterns, strings.Split(strings.TrimPrefix(p, "/"), "/"))
	}
	parts, err := c.mark(m, rules)
	if err != nil {
		return fmt.Errorf("case of %s: %w", c.Tool, err)
	}
	masks := map[string]string{}
	for text, n := range m.numbers {
		masks[text] = placeholder(n)
	}
	r := &replacer{marker: m, values: secret.NewReplacer(masks), text: rules.Text}
	for _, p := range parts {
		r.node(p.tree)
		*p.raw = p.tree.appendJSON(nil)
	}
	for i := range c.Effects {
		e := &c.Effects[i]
		if e.Kind != "call" { // of a call it is the name of the tool
			e.Name = r.string(e.Name)
		}
		r.failure(e.Failure)
	}
	r.failure(c.Failure)
	c.Redacted = m.found
	return nil
}

func placeholder(n int) string { return fmt.Sprintf("<redacted %d>", n) }

// part is one value of a case.
type part struct {
	raw  *json.RawMessage
	tree *node
}

// mark marks the secrets in all values of the case, in order.
func (c *Case) mark(m *marker, rules Rules) (parts []part, err error) {
	schemas := rules.Schemas
	if schemas == nil {
		schemas = func(string) (input, output json.RawMessage) { return nil, nil }
	}
	add := func(raw *json.RawMessage, at string, s *shape) {
		if len(*raw) == 0 || err != nil {
			return
		}
		tree, failed := parseTree(*raw)
		if failed != nil {
			err = fmt.Errorf("%s: %w", at, failed)
			return
		}
		m.visit(tree, strings.Split(at, "/"), s)
		parts = append(parts, part{raw, tree})
	}
	input, output := schemas(c.Tool)
	add(&c.Arguments, "arguments", shapeOf(input))
	for i := range c.Effects {
		e := &c.Effects[i]
		at := "effects/" + strconv.Itoa(i)
		switch e.Kind {
		case "call":
			in, out := schemas(e.Name)
			add(&e.Args, at+"/args", shapeOf(in))
			add(&e.Result, at+"/result", &shape{isResult: true, result: shapeOf(out)})
		case "elicit":
			add(&e.Args, at+"/args", &shape{question: true})
			add(&e.Result, at+"/result", &shape{properties: map[string]*shape{"content": formOf(e.Args)}})
		default:
			add(&e.Args, at+"/args", nil)
			add(&e.Result, at+"/result", nil)
		}
	}
	add(&c.Output, "output", shapeOf(output))
	add(&c.Content, "content", &shape{blocks: &shape{json: shapeOf(output)}})
	return parts, err
}

// A marker marks nodes and collects the texts in them.
type marker struct {
	keep     bool            // mark nothing
	patterns [][]string      // pointers
	numbers  map[string]int  // of texts, in the order of their discovery
	digits   map[string]bool // numbers that are long enough to be replaced elsewhere
	found    []string        // pointers to marked values
}

// visit checks a value, whose shape may be known.
func (m *marker) visit(n *node, at []string, s *shape) {
	if m.keep {
		return
	}
	if s.secretHere() || m.pointed(at) {
		m.mark(n, at)
		return
	}
	if n.isText && s.holdsJSON() {
		m.inText(n, at, s)
	}
	for i, p := range n.parts {
		name := strconv.Itoa(i)
		if n.object {
			name = n.names[i]
		}
		below := append(at[:len(at):len(at)], escape(name))
		if n.object && !s.isForm() && m.named(name, p) {
			m.mark(p, below)
			continue
		}
		m.visit(p, below, s.below(n, name))
	}
}

// inText visits the value of a string that contains JSON: content repeats what is structured.
func (m *marker) inText(n *node, at []string, s *shape) {
	text := strings.TrimSpace(n.text)
	if text == "" || text[0] != '{' && text[0] != '[' {
		return
	}
	tree, err := parseTree(json.RawMessage(text))
	if err != nil {
		return
	}
	inner := &marker{numbers: m.numbers, digits: m.digits}
	inner.visit(tree, []string{""}, s.json)
	if len(inner.found) > 0 {
		(&replacer{marker: m}).node(tree)
		n.text = string(tree.appendJSON(nil))
		m.found = append(m.found, pointer(at))
	}
}

// mark marks a value, and collects the strings and numbers in it.
func (m *marker) mark(n *node, at []string) {
	if n.isNull() {
		return
	}
	n.secret = true
	m.found = append(m.found, pointer(at))
	m.remember(n)
}

func (m *marker) remember(n *node) {
	switch {
	case n.isText && n.text != "":
		if _, known := m.numbers[n.text]; !known {
			m.numbers[n.text] = len(m.numbers) + 1
		}
	case n.isNumber() && len(n.scalar) >= secret.Shortest:
		m.digits[string(n.scalar)] = true
		if _, known := m.numbers[string(n.scalar)]; !known {
			m.numbers[string(n.scalar)] = len(m.numbers) + 1
		}
	}
	for _, p := range n.parts {
		m.remember(p)
	}
}

func pointer(at []string) string { return "/" + strings.Join(at, "/") }

func escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// pointed reports whether a rule's pointer matches a position.
func (m *marker) pointed(at []string) bool {
	for _, p := range m.patterns {
		if leadsTo(p, at) {
			return true
		}
		if len(at) > 3 && at[0] == "effects" && at[2] == "result" && at[3] == "structuredContent" &&
			leadsTo(p, append(at[:3:3], at[4:]...)) && len(at) > 4 {
			return true
		}
	}
	return false
}

func leadsTo(pattern, at []string) bool {
	if len(pattern) != len(at) {
		return false
	}
	for i, p := range pattern {
		if p != "*" && p != at[i] {
			return false
		}
	}
	return true
}

// replacer replaces the secrets that a marker has found.
type replacer struct {
	*marker
	values *secret.Replacer    // nil: replace marked values only
	text   func(string) string // may be nil
}

func (r *replacer) node(n *node) {
	switch {
	case n.secret:
		r.zero(n)
	case n.isText:
		n.text = r.string(n.text)
	case n.isNumber() && r.digits[string(n.scalar)]:
		n.scalar = json.RawMessage("0")
	}
	for i, p := range n.parts {
		if n.object {
			n.names[i] = r.string(n.names[i])
		}
		r.node(p)
	}
}

// zero replaces a marked value by one of the same type without information.
func (r *replacer) zero(n *node) {
	n.secret = false
	switch {
	case n.isText && n.text != "":
		n.text = placeholder(r.numbers[n.text])
	case n.isNumber():
		n.scalar = json.RawMessage("0")
	case n.object, n.array:
		n.names, n.parts = nil, nil
	case !n.isText:
		n.scalar = json.RawMessage("false")
	}
}

func (r *replacer) string(s string) string {
	if r.values != nil {
		s = r.values.Text(s)
	}
	if r.text != nil {
		s = r.text(s)
	}
	return s
}

func (r *replacer) failure(f *Failure) {
	if f != nil {
		f.Message = strings.ToValidUTF8(r.string(f.Message), string(utf8.RuneError))
	}
}
