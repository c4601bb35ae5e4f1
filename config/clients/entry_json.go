package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonText is JSON with comments.
type jsonText struct {
	file string
	data []byte
	root *hujson.Value
}

func parseJSON(file string, data []byte) (entryText, error) {
	t := &jsonText{file: file, data: data}
	if len(bytes.TrimSpace(data)) == 0 {
		return t, nil // an empty file is an empty object
	}
	var err error
	t.root, err = parseJSONText(file, data)
	return t, err
}

// object returns the value of a member, which must be an object; nil if there is no such member.
func (t *jsonText) object(of *hujson.Value, name string) (*hujson.Value, error) {
	m := entryMember(of, name)
	if m < 0 {
		return nil, nil
	}
	v := &of.Value.(*hujson.Object).Members[m].Value
	if _, ok := v.Value.(*hujson.Object); !ok {
		return nil, problem(t.file, t.data, v.StartOffset, "%s: want an object", name)
	}
	return v, nil
}

// entryMember returns the index of the last member of that name, which is the effective one; -1 if there is none.
func entryMember(of *hujson.Value, name string) int {
	members := of.Value.(*hujson.Object).Members
	for i := len(members) - 1; i >= 0; i-- {
		if l, ok := members[i].Name.Value.(hujson.Literal); ok && l.String() == name {
			return i
		}
	}
	return -1
}

func (t *jsonText) find(shape, name string) (*Found, error) {
	if t.root == nil {
		return nil, nil
	}
	servers, err := t.object(t.root, shape)
	if servers == nil || err != nil {
		return nil, err
	}
	i := entryMember(servers, name)
	if i < 0 {
		return nil, nil
	}
	m := servers.Value.(*hujson.Object).Members[i]
	value := t.data[m.Value.StartOffset:m.Value.EndOffset]
	return &Found{Pos: pos(t.file, t.data, m.Name.StartOffset), Value: value, same: func(other []byte) bool { return sameJSON(value, other) }}, nil
}

// sameJSON reports whether two values are equal. Numbers are compared by their text.
func sameJSON(a, b []byte) bool {
	x, okA := decode(a)
	y, okB := decode(b)
	return okA && okB && reflect.DeepEqual(x, y)
}

func decode(data []byte) (v any, ok bool) {
	standard, err := hujson.Standardize(bytes.Clone(data))
	if err != nil {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(standard))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil, false
	}
	_, err = d.Token()
	return v, err == io.EOF
}

func (t *jsonText) names(shape string) (names []string, err error) {
	if t.root == nil {
		return nil, nil
	}
	servers, err := t.object(t.root, shape)
	if servers == nil || err != nil {
		return nil, err
	}
	for _, m := range servers.Value.(*hujson.Object).Members {
		if l, ok := m.Name.Value.(hujson.Literal); ok {
			names = append(names, l.String())
		}
	}
	return names, nil
}

func (t *jsonText) put(e Entry) ([]byte, error) {
	if t.root == nil {
		nl := newline(t.data)
		again := &jsonText{file: t.file, data: append([]byte("{}"+nl), bytes.TrimSpace(t.data)...)}
		var err error
		if again.root, err = parseJSONText(t.file, again.data); err != nil {
			return nil, err
		}
		return again.put(e)
	}
	servers, err := t.object(t.root, e.Shape)
	switch {
	case err != nil:
		return nil, err
	case servers == nil:
		parent := Entry{Name: e.Shape, Value: fmt.Appendf(nil, `{%s:%s}`, quote(e.Name), e.Value), Raw: e.Raw}
		return t.insert(t.root, parent), nil
	}
	if i := entryMember(servers, e.Name); i >= 0 {
		m := servers.Value.(*hujson.Object).Members[i]
		value := t.render(e, t.indentAt(m.Name.StartOffset), strings.Contains(string(m.Name.BeforeExtra), "\n"))
		return apply(t.data, splice{m.Value.StartOffset, m.Value.EndOffset, value}), nil
	}
	return t.insert(servers, e), nil
}

// insert adds a member at the end of an object that has members.
func (t *jsonText) insert(into *hujson.Value, e Entry) []byte {
	o := into.Value.(*hujson.Object)
	if len(o.Members) == 0 {
		return t.first(into, e)
	}
	last := &o.Members[len(o.Members)-1]
	before := string(last.Name.BeforeExtra)
	lines := strings.Contains(before, "\n")
	trailing := last.Value.AfterExtra != nil
	at := last.Value.EndOffset
	if trailing {
		at += len(last.Value.AfterExtra) + len(",")
	}
	var added string
	if lines {
		indent := t.indentAt(last.Name.StartOffset)
		added = newline(t.data) + indent + quote(e.Name) + ": " + t.render(e, indent, true)
		at += lineRest(t.data[at : into.EndOffset-1])
	} else {
		added = before[:len(before)-len(strings.TrimLeft(before, " \t"))] + quote(e.Name) + ": " + t.render(e, "", false)
	}
	if trailing {
		return apply(t.data, splice{at, at, added + ","})
	}
	return apply(t.data, splice{last.Value.EndOffset, last.Value.EndOffset, ","}, splice{at, at, added})
}

// first adds a member to an empty object, which may hold spaces and comments.
func (t *jsonText) first(into *hujson.Value, e Entry) []byte {
	from, to := into.StartOffset+1, into.EndOffset-1
	inner := t.data[from:to]
	outer, nl := t.indentAt(into.StartOffset), newline(t.data)
	indent := outer + t.unit()
	lines := into == t.root || bytes.Contains(bytes.TrimSpace(t.data), []byte{'\n'})
	added := quote(e.Name) + ": " + t.render(e, indent, lines)
	switch {
	case bytes.Contains(inner, []byte{'\n'}):
		at := from + lineRest(inner)
		return apply(t.data, splice{at, at, nl + indent + added})
	case lines:
		return apply(t.data, splice{to, to, nl + indent + added + nl + outer})
	}
	return apply(t.data, splice{to, to, added})
}

func quote(name string) string {
	text, _ := json.Marshal(name) // a string always can be encoded
	return string(text)
}

// lineRest is the length of the part of extra, white space and comments, that belongs to its first
// line: all of it if it has no line break outside of a comment.
func lineRest(extra []byte) int {
	for i := 0; i < len(extra); i++ {
		switch {
		case bytes.HasPrefix(extra[i:], []byte("/*")):
			i += len("/*") + bytes.Index(extra[i+len("/*"):], []byte("*/")) + 1
		case bytes.HasPrefix(extra[i:], []byte("//")):
			i += bytes.IndexByte(extra[i:], '\n') - 1 // a comment ends with its line
			if extra[i] == '\r' {
				i--
			}
		case extra[i] == '\n' && i > 0 && extra[i-1] == '\r':
			return i - 1
		case extra[i] == '\n':
			return i
		}
	}
	return len(bytes.TrimRight(extra, " \t"))
}

// indentAt is the indentation of the line of an offset.
func (t *jsonText) indentAt(offset int) string {
	line := t.data[bytes.LastIndexByte(t.data[:offset], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// unit is one step of indentation: that of the root's members.
func (t *jsonText) unit() string {
	for _, m := range t.root.Value.(*hujson.Object).Members {
		if bytes.Contains(m.Name.BeforeExtra, []byte{'\n'}) {
			if indent := t.indentAt(m.Name.StartOffset); indent != "" {
				return indent
			}
		}
	}
	return "  "
}

// render formats a value.
func (t *jsonText) render(e Entry, indent string, lines bool) string {
	if !lines || e.Raw {
		return string(e.Value)
	}
	v, err := hujson.Parse(e.Value)
	if err != nil {
		return string(e.Value) // Put parses the result and reports it
	}
	return t.lines(e.Value, &v, indent)
}

// lines formats a value with one member per line and lists on one line.
func (t *jsonText) lines(text []byte, v *hujson.Value, indent string) string {
	nl := newline(t.data)
	switch x := v.Value.(type) {
	case *hujson.Object:
		if len(x.Members) == 0 {
			return "{}"
		}
		var members []string
		for i := range x.Members {
			m := &x.Members[i]
			members = append(members, indent+t.unit()+string(text[m.Name.StartOffset:m.Name.EndOffset])+": "+t.lines(text, &m.Value, indent+t.unit()))
		}
		return "{" + nl + strings.Join(members, ","+nl) + nl + indent + "}"
	case *hujson.Array:
		var items []string
		for i := range x.Elements {
			items = append(items, t.lines(text, &x.Elements[i], indent))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return string(text[v.StartOffset:v.EndOffset])
}

func (t *jsonText) remove(shape, name string, emptyParent bool) ([]byte, error) {
	if t.root == nil {
		return nil, ErrNone
	}
	servers, err := t.object(t.root, shape)
	if err != nil {
		return nil, err
	}
	if servers == nil || entryMember(servers, name) < 0 {
		return nil, ErrNone
	}
	if emptyParent && len(servers.Value.(*hujson.Object).Members) == 1 {
		return t.cut(t.root, entryMember(t.root, shape)), nil
	}
	return t.cut(servers, entryMember(servers, name)), nil
}

// cut removes a member from an object, with the line break and indentation before it and its
// separating comma.
func (t *jsonText) cut(of *hujson.Value, i int) []byte {
	o := of.Value.(*hujson.Object)
	m := &o.Members[i]
	from := len(bytes.TrimRight(t.data[:m.Name.StartOffset], " \t"))
	if from > 0 && t.data[from-1] == '\n' {
		from--
		if t.data[from-1] == '\r' {
			from--
		}
	}
	end := m.Value.EndOffset
	cuts := []splice{{from: from, to: end}}
	switch comma := end + len(m.Value.AfterExtra); {
	case i < len(o.Members)-1 || m.Value.AfterExtra != nil:
		cuts = append(cuts, splice{from: comma, to: comma + 1})
	case i > 0:
		before := o.Members[i-1].Value
		comma := before.EndOffset + len(before.AfterExtra)
		cuts = append(cuts, splice{from: comma, to: comma + 1})
	}
	inner := t.data[of.StartOffset+1 : from]
	rest := t.data[end : of.EndOffset-1]
	if len(o.Members) == 1 && m.Value.AfterExtra == nil && len(bytes.TrimSpace(inner))+len(bytes.TrimSpace(rest)) == 0 {
		cuts = []splice{{from: of.StartOffset + 1, to: of.EndOffset - 1}}
	}
	return apply(t.data, cuts...)
}
