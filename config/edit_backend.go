package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// EditedBackend has the fields of a backend entry. Strings have the syntax of vmcp.yaml, with ${NAME} for
// variables.
type EditedBackend struct {
	Name      string
	URL       string
	Transport string
	Headers   map[string]string
	Command   string
	Args      []string
	Env       map[string]string
	Cwd       string
	Timeout   string
	Prefix    *string
	Disabled  bool
}

// Add appends backends to those of a vmcp.yaml. The error names a backend that exists already.
func Add(data []byte, all ...EditedBackend) ([]byte, error) {
	for _, b := range all {
		t, err := editRead(data)
		if err != nil {
			return nil, err
		}
		if slices.Contains(t.names(), b.Name) {
			return nil, fmt.Errorf("there is a backend %s already", b.Name)
		}
		if data, err = t.add(&b); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func (t *text) add(b *EditedBackend) ([]byte, error) {
	switch {
	case t.root != nil && t.root.Style&yaml.FlowStyle != 0 && t.list == nil:
		return nil, fmt.Errorf("line %d: the file is one mapping in braces without backends; add backends: [] to it", t.root.Line)
	case t.key == nil:
		return t.append("backends:" + t.newline + t.block(b, 2)), nil
	case t.list.Style&yaml.FlowStyle != 0:
		return t.addFlow(b)
	case len(t.list.Content) == 0: // backends: without a value
		end := t.lineEnd(t.key.Line)
		return t.replaced(end, end, t.newline+strings.TrimSuffix(t.block(b, t.key.Column-1), t.newline)), nil
	}
	last := t.list.Content[len(t.list.Content)-1]
	end := t.lineEnd(t.lastLine(last.Line, t.dash()+1))
	return t.replaced(end, end, t.newline+strings.TrimSuffix(t.block(b, t.dash()), t.newline)), nil
}

// append adds a block at the end of the file.
func (t *text) append(block string) []byte {
	if len(t.data) > 0 && t.data[len(t.data)-1] != '\n' {
		block = t.newline + strings.TrimSuffix(block, t.newline)
	}
	return t.replaced(len(t.data), len(t.data), block)
}

// dash is the indentation of the dashes of the list.
func (t *text) dash() int { return t.indent(t.dashLine(t.list.Content[0])) }

// dashLine is the line with the dash of an item, which may be a line of its own above the item.
func (t *text) dashLine(item *yaml.Node) int {
	line := item.Line
	for line > 1 && !bytes.HasPrefix(bytes.TrimLeft(t.data[t.starts[line-1]:], " "), []byte("-")) {
		line--
	}
	return line
}

// addFlow adds a backend to a flow sequence, which is in brackets.
func (t *text) addFlow(b *EditedBackend) ([]byte, error) {
	begin := t.offset(t.list.Line, t.list.Column)
	end, last := t.closing(begin)
	if end < 0 {
		return nil, fmt.Errorf("line %d: the end of backends was not found", t.list.Line)
	}
	item := b.flow()
	if len(t.list.Content) > 0 && t.data[last] != ',' {
		item = ", " + item
	} else if len(t.list.Content) > 0 {
		item = " " + item + ","
	}
	return t.replaced(last+1, last+1, item), nil
}

// closing returns the offset of the bracket that closes the one at begin, and of the last character
// before it that is neither white space nor part of a comment.
func (t *text) closing(begin int) (end, last int) {
	depth, quote := 0, byte(0)
	last = begin
	for i := begin; i < len(t.data); i++ {
		c := t.data[i]
		switch {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && strings.ContainsRune(" \t\n[{,:", rune(t.data[i-1])):
			quote = c
		case c == '#' && strings.ContainsRune(" \t\n", rune(t.data[i-1])):
			i += max(bytes.IndexByte(t.data[i:], '\n'), 0)
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return i, last
			}
		}
		if !strings.ContainsRune(" \t\r\n", rune(c)) {
			last = i
		}
	}
	return -1, -1
}

// Remove removes a backend. The error is ErrNone if there is none of that name.
func Remove(data []byte, name string) ([]byte, error) {
	t, err := editRead(data)
	if err != nil {
		return nil, err
	}
	i := slices.Index(t.names(), name)
	if i < 0 {
		return nil, ErrNone
	}
	if t.list.Style&yaml.FlowStyle != 0 {
		return t.removeFlow(i)
	}
	item := t.list.Content[i]
	first := t.dashLine(item)
	last := t.lastLine(item.Line, t.dash()+1)
	if len(t.list.Content) == 1 && t.dash() > t.key.Column-1 {
		first = t.key.Line // the list as well; without an indent its key stays
	}
	return t.withoutLines(first, last), nil
}

// withoutLines removes lines. If they are the last ones and the file does not end with a line end,
// the line end before them is removed, too.
func (t *text) withoutLines(first, last int) []byte {
	from, to := t.starts[first-1], len(t.data)
	if last < len(t.starts) {
		to = t.starts[last]
	} else if from > 0 {
		from = t.lineEnd(first - 1)
	}
	return t.replaced(from, to, "")
}

// removeFlow removes an item of a flow sequence, with the comma after or before it.
func (t *text) removeFlow(i int) ([]byte, error) {
	items := t.list.Content
	if items[i].Kind != yaml.MappingNode || items[i].Style&yaml.FlowStyle == 0 {
		return nil, fmt.Errorf("line %d: the backend is not a mapping in braces", items[i].Line)
	}
	from := t.offset(items[i].Line, items[i].Column)
	to, _ := t.closing(from)
	if to++; to == 0 {
		return nil, fmt.Errorf("line %d: the end of the backend was not found", items[i].Line)
	}
	if i > 0 {
		before := t.offset(items[i-1].Line, items[i-1].Column)
		end, _ := t.closing(before)
		from = end + 1
	} else if i+1 < len(items) {
		to = t.offset(items[i+1].Line, items[i+1].Column)
	}
	return t.replaced(from, to, ""), nil
}

// block is a backend as an item of a block sequence, each line with its line end.
func (t *text) block(b *EditedBackend, indent int) string {
	var out strings.Builder
	in := strings.Repeat(" ", indent)
	line := func(format string, args ...any) {
		out.WriteString(in + fmt.Sprintf(format, args...) + t.newline)
	}
	for i, f := range b.fields() {
		lead := "  "
		if i == 0 {
			lead = "- "
		}
		if len(f.members) == 0 {
			line("%s%s: %s", lead, f.name, f.value)
			continue
		}
		line("%s%s:", lead, f.name)
		for _, m := range f.members {
			line("    %s", m)
		}
	}
	return out.String()
}

// flow is a backend as a flow mapping, in braces.
func (b *EditedBackend) flow() string {
	var parts []string
	for _, f := range b.fields() {
		value := f.value
		if len(f.members) > 0 {
			value = "{" + strings.Join(f.members, ", ") + "}"
		}
		parts = append(parts, f.name+": "+value)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// field is a field of a backend: a value, or members, each NAME: VALUE.
type field struct {
	name, value string
	members     []string
}

func (b *EditedBackend) fields() (all []field) {
	put := func(name, value string, written bool) {
		if written {
			all = append(all, field{name: name, value: value})
		}
	}
	put("name", scalar(b.Name), true)
	put("url", scalar(b.URL), b.URL != "")
	put("transport", scalar(b.Transport), b.Transport != "")
	all = appendMembers(all, "headers", b.Headers)
	put("command", scalar(b.Command), b.Command != "")
	var args []string
	for _, arg := range b.Args {
		args = append(args, scalarInFlow(arg))
	}
	put("args", "["+strings.Join(args, ", ")+"]", len(args) > 0)
	all = appendMembers(all, "env", b.Env)
	put("cwd", scalar(b.Cwd), b.Cwd != "")
	put("timeout", b.Timeout, b.Timeout != "")
	if b.Prefix != nil {
		put("prefix", scalar(*b.Prefix), true)
	}
	put("disabled", "true", b.Disabled)
	return all
}

func appendMembers(all []field, name string, members map[string]string) []field {
	if len(members) == 0 {
		return all
	}
	f := field{name: name}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		f.members = append(f.members, scalarInFlow(key)+": "+scalarInFlow(members[key]))
	}
	return append(all, f)
}

var (
	plain       = regexp.MustCompile(`^[A-Za-z0-9_./$@+~^=%!*?-][A-Za-z0-9_./$@+~^=%:{} *?&;()'|<>!-]*$`)
	plainInFlow = regexp.MustCompile(`^[A-Za-z0-9_./@+~^=-][A-Za-z0-9_./$@+~^=%:-]*$`)
)

// scalar is a string as YAML: plain if that is parsed as the same string, else in double quotes.
func scalar(s string) string { return editWritten(s, plain) }

// scalarInFlow is scalar inside of brackets or braces.
func scalarInFlow(s string) string { return editWritten(s, plainInFlow) }

func editWritten(s string, as *regexp.Regexp) string {
	var back any
	if as.MatchString(s) && yaml.Unmarshal([]byte("["+s+"]"), &back) == nil {
		if list, ok := back.([]any); ok && len(list) == 1 && list[0] == s {
			return s
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	return strings.TrimSpace(b.String())
}
