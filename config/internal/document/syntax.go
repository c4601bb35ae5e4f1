package document

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/limits"
)

// root parses the one YAML document of a file; nil when there is nothing to decode.
func (d *Document) root(data []byte, max int64) *yaml.Node {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // a byte order mark
	if !d.readable(data, max) {
		return nil
	}
	d.lines = strings.Split(string(data), "\n")
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		d.problem(1, 1, "the file is empty; want at least backends: with one entry")
		return nil
	} else if err != nil {
		d.syntax(data, err)
		return nil
	}
	switch err := dec.Decode(&next); {
	case err == nil:
		d.wrong(&next, "", "a second document begins here; want one per file")
	case !errors.Is(err, io.EOF):
		d.syntax(data, err)
	}
	root := doc.Content[0]
	if isNull(root) {
		d.problem(1, 1, "the file is empty; want at least backends: with one entry")
		return nil
	}
	if d.endless(root, nil) {
		return nil
	}
	return root
}

// endless reports an alias inside the very value that it stands for.
func (d *Document) endless(n *yaml.Node, around []*yaml.Node) bool {
	if n.Kind == yaml.AliasNode && slices.Contains(around, n.Alias) {
		d.wrong(n, "", "*%s stands inside &%[1]s itself and would never end", n.Value)
		return true
	}
	around = append(around, n)
	return slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return d.endless(item, around) })
}

// readable refuses what YAML's own message would not help with.
func (d *Document) readable(data []byte, max int64) bool {
	if int64(len(data)) > max {
		d.problem(1, 1, "the file is larger than %s", limits.Bytes(max))
		return false
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if utf8.Valid(line) {
			continue
		}
		column := 1
		for rest := line; ; column++ {
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size <= 1 {
				break
			}
			rest = rest[size:]
		}
		d.problem(i+1, column, "not UTF-8 text; save the file as UTF-8")
		return false
	}
	return true
}

// syntax reports what the YAML parser says. It has the line only in its text.
func (d *Document) syntax(data []byte, err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if _, name, ok := strings.Cut(msg, "unknown anchor '"); ok { // the one message without a line
		name, _, _ = strings.Cut(name, "'")
		before, _, _ := bytes.Cut(data, []byte("*"+name))
		line += bytes.Count(before, []byte("\n"))
	}
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		number, text, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, msg = n, text
		}
	}
	if tab := tabIndent(data, line); tab > 0 {
		d.problem(tab, 1, "indented with a tab; YAML wants spaces")
		return
	}
	d.problem(line, indent(data, line)+1, "not YAML: %s", msg)
}

// tabIndent returns the line at or next to the given one that is indented with a
// tab, or 0: the parser's line is where it noticed.
func tabIndent(data []byte, line int) int {
	lines := bytes.Split(data, []byte("\n"))
	for n := max(line-1, 1); n <= min(line+1, len(lines)); n++ {
		text := lines[n-1]
		if bytes.ContainsRune(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t') {
			return n
		}
	}
	return 0
}

// indent is the number of spaces before the text of a line.
func indent(data []byte, line int) int {
	lines := bytes.Split(data, []byte("\n"))
	if line > len(lines) {
		return 0
	}
	text := lines[line-1]
	return len(text) - len(bytes.TrimLeft(text, " "))
}
