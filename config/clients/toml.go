package clients

import (
	"errors"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// checkTOML checks that data is a TOML document. The error is diag.Problems with a position in the
// file of that name.
func checkTOML(filename string, data []byte) error {
	d := &document{name: diag.File(filename)}
	if at := deep(data); at >= 0 {
		line, column := position(data, at)
		return d.problem(line, column, "more than %d values within each other", maxDepth)
	}
	var whole map[string]any
	if err := toml.Unmarshal(data, &whole); err != nil {
		line, column := 1, 1
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, column = at.Position()
		}
		return d.problem(line, column, "%s", trimTOML(err.Error()))
	}
	return nil
}

// toml reads a TOML document. The decoder validates it; the tree, with positions, is made of the
// parser's expressions.
func (d *document) toml(data []byte) (*node, error) {
	if err := checkTOML(string(d.name), data); err != nil {
		return nil, err
	}
	t := &tomlReader{document: d, places: newPlaces(data), root: &node{kind: object, line: 1, column: 1}, known: map[tomlKey]*node{}}
	t.table = t.root
	t.parser.Reset(data)
	for t.parser.NextExpression() {
		if !t.expression(t.parser.Expression()) {
			return nil, d.problem(1, 1, "more than %d values", maxNodes)
		}
	}
	return t.root, nil
}

func trimTOML(text string) string {
	const prefix = "toml: "
	if len(text) > len(prefix) && text[:len(prefix)] == prefix {
		return text[len(prefix):]
	}
	return text
}

type tomlReader struct {
	*document
	parser unstable.Parser
	places *places
	root   *node
	table  *node // that keys without a path belong to
	known  map[tomlKey]*node
}

// tomlKey is a member of a table; a file may have very many.
type tomlKey struct {
	table *node
	name  string
}

func (t *tomlReader) get(table *node, name string) *node { return t.known[tomlKey{table, name}] }

// put adds a member. The decoder has checked that its name is unique.
func (t *tomlReader) put(table *node, m member) {
	table.members = append(table.members, m)
	t.known[tomlKey{table, m.name}] = m.value
}

func (t *tomlReader) expression(e *unstable.Node) bool {
	switch e.Kind {
	case unstable.Table:
		t.table = t.path(t.root, e.Key(), false)
	case unstable.ArrayTable:
		t.table = t.path(t.root, e.Key(), true)
	case unstable.KeyValue:
		return t.keyValue(t.table, e)
	}
	return t.count()
}

// path finds the table of a dotted key, and makes missing ones. With another it appends a table to
// an array of tables.
func (t *tomlReader) path(from *node, keys unstable.Iterator, another bool) *node {
	at := from
	for keys.Next() {
		key := keys.Node()
		line, column := t.place(key)
		last := keys.IsLast()
		next := t.get(at, string(key.Data))
		switch {
		case another && last:
			item := &node{kind: object, line: line, column: column}
			if next == nil || next.kind != list {
				next = &node{kind: list, line: line, column: column}
				t.put(at, member{string(key.Data), next, line, column})
			}
			next.items = append(next.items, item)
			at = item
			continue
		case next != nil && next.kind == list && len(next.items) > 0:
			next = next.items[len(next.items)-1]
		case next == nil || next.kind != object:
			next = &node{kind: object, line: line, column: column}
			t.put(at, member{string(key.Data), next, line, column})
		}
		at = next
	}
	return at
}

func (t *tomlReader) place(n *unstable.Node) (line, column int) {
	return t.places.position(int(n.Raw.Offset))
}

func (t *tomlReader) keyValue(table *node, e *unstable.Node) bool {
	keys, depth := e.Key(), 0
	for count := e.Key(); count.Next(); {
		depth++
	}
	at := table
	for i := 0; keys.Next(); i++ {
		key := keys.Node()
		line, column := t.place(key)
		if i == depth-1 {
			value := t.value(e.Value(), line, column)
			if value == nil {
				return false
			}
			t.put(at, member{string(key.Data), value, line, column})
			return true
		}
		next := t.get(at, string(key.Data))
		if next == nil || next.kind != object {
			next = &node{kind: object, line: line, column: column}
			t.put(at, member{string(key.Data), next, line, column})
		}
		at = next
	}
	return true
}

// value converts a value; nil if the document has too many. It gets the position of its key, since the
// parser does not report one for all kinds of values.
func (t *tomlReader) value(v *unstable.Node, line, column int) *node {
	if !t.count() {
		return nil
	}
	n := &node{line: line, column: column}
	switch v.Kind {
	case unstable.String:
		n.kind, n.text = text, string(v.Data)
	case unstable.Bool:
		n.kind, n.text = boolean, string(v.Data)
	case unstable.Integer, unstable.Float:
		n.kind, n.text = number, string(v.Data)
	case unstable.Array:
		n.kind = list
		for items := v.Children(); items.Next(); {
			if items.Node().Kind == unstable.Comment {
				continue
			}
			item := t.value(items.Node(), line, column)
			if item == nil {
				return nil
			}
			n.items = append(n.items, item)
		}
	case unstable.InlineTable:
		n.kind = object
		for items := v.Children(); items.Next(); {
			if items.Node().Kind == unstable.KeyValue && !t.keyValue(n, items.Node()) {
				return nil
			}
		}
	default:
		n.kind, n.text = text, string(v.Data)
	}
	return n
}
