package clients

import (
	"bytes"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlText is a TOML document.
type tomlText struct {
	file       string
	data       []byte
	statements []statement
}

// statement is a table header or a key with its value, as whole lines.
type statement struct {
	path     []string // from the root
	from, to int      // offsets of its lines, with the line break
	inline   bool     // its value is an inline table
}

func parseTOML(file string, data []byte) (entryText, error) {
	if err := checkTOML(file, data); err != nil {
		return nil, err
	}
	t := &tomlText{file: file, data: data}
	var p unstable.Parser
	var table []string
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		path, start := keyOf(e)
		s := statement{path: path}
		end := start
		if e.Kind == unstable.KeyValue {
			s.path = slices.Concat(table, path)
			s.inline = e.Value().Kind == unstable.InlineTable
			end = int(e.Raw.Offset + e.Raw.Length)
		} else {
			table = path
		}
		s.from, s.to = bytes.LastIndexByte(data[:start], '\n')+1, len(data)
		if at := bytes.IndexByte(data[min(end, len(data)):], '\n'); at >= 0 {
			s.to = end + at + 1
		}
		if end > start && data[end-1] == '\n' { // the range of the value may include the line break
			s.to = end
		}
		t.statements = append(t.statements, s)
	}
	return t, nil
}

// keyOf returns the dotted key of an expression and its offset.
func keyOf(e *unstable.Node) (path []string, start int) {
	start = -1
	for keys := e.Key(); keys.Next(); {
		if start < 0 {
			start = int(keys.Node().Raw.Offset)
		}
		path = append(path, string(keys.Node().Data))
	}
	return path, start
}

// own returns the ranges of lines of an entry. Comments between two of its lines belong to it.
func (t *tomlText) own(shape, name string) (ranges []splice, err error) {
	before := -1 // the index of the entry's last statement
	for i, s := range t.statements {
		if len(s.path) == 1 && s.path[0] == shape && s.inline {
			return nil, problem(t.file, t.data, s.from, "%s is an inline table, which is not edited: write tables [%s.NAME]", shape, shape)
		}
		if len(s.path) < 2 || s.path[0] != shape || s.path[1] != name {
			continue
		}
		if before == i-1 && len(ranges) > 0 {
			ranges[len(ranges)-1].to = s.to
		} else {
			ranges = append(ranges, splice{from: s.from, to: s.to})
		}
		before = i
	}
	return ranges, nil
}

func (t *tomlText) find(shape, name string) (*Found, error) {
	ranges, err := t.own(shape, name)
	if len(ranges) == 0 || err != nil {
		return nil, err
	}
	var lines []byte
	for _, r := range ranges {
		lines = append(lines, t.data[r.from:r.to]...)
	}
	value := t.value(shape, name)
	return &Found{Pos: pos(t.file, t.data, ranges[0].from), Value: lines, same: func(other []byte) bool {
		var v map[string]any
		return toml.Unmarshal(other, &v) == nil && reflect.DeepEqual(v, value)
	}}, nil
}

// value returns the decoded value of an entry.
func (t *tomlText) value(shape, name string) any {
	var whole map[string]any
	_ = toml.Unmarshal(t.data, &whole) // it was parsed before
	servers, _ := whole[shape].(map[string]any)
	return servers[name]
}

func (t *tomlText) names(shape string) (names []string, err error) {
	for _, s := range t.statements {
		if len(s.path) > 1 && s.path[0] == shape && !slices.Contains(names, s.path[1]) {
			names = append(names, s.path[1])
		}
	}
	_, err = t.own(shape, "")
	return names, err
}

func (t *tomlText) put(e Entry) ([]byte, error) {
	ranges, err := t.own(e.Shape, e.Name)
	if err != nil {
		return nil, err
	}
	nl := newline(t.data)
	lines := strings.TrimRight(strings.ReplaceAll(string(e.Value), "\r\n", "\n"), "\n") + "\n"
	if !strings.HasPrefix(lines, "[") {
		lines = "[" + e.Shape + "." + e.Name + "]\n" + lines
	}
	lines = strings.ReplaceAll(lines, "\n", nl)
	if len(ranges) > 0 && t.isTable(ranges[0].from) {
		ranges[0].with = lines
		return apply(t.data, ranges...), nil
	}
	data := apply(t.data, ranges...)
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, nl...)
	}
	if len(data) > 0 {
		data = append(data, nl...) // a blank line, which remove removes
	}
	return append(data, lines...), nil
}

// isTable reports whether a table header begins at an offset: only there another one may be inserted.
func (t *tomlText) isTable(offset int) bool {
	return bytes.HasPrefix(bytes.TrimLeft(t.data[offset:], " \t"), []byte{'['})
}

// blankEnd reports whether the last line is blank.
func blankEnd(data []byte) bool {
	rest := bytes.TrimSuffix(bytes.TrimSuffix(data, []byte{'\n'}), []byte{'\r'})
	return len(rest) > 0 && rest[len(rest)-1] == '\n'
}

func (t *tomlText) remove(shape, name string, _ bool) ([]byte, error) {
	ranges, err := t.own(shape, name)
	if err != nil {
		return nil, err
	}
	if len(ranges) == 0 {
		return nil, ErrNone
	}
	for i, r := range ranges {
		if before := t.data[:r.from]; t.isTable(r.from) && blankEnd(before) {
			ranges[i].from = len(bytes.TrimSuffix(bytes.TrimSuffix(before, []byte{'\n'}), []byte{'\r'}))
		}
	}
	return apply(t.data, ranges...), nil
}
