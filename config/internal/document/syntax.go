package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/limits"
)

// root parses the one YAML document of a file; nil if there is nothing to decode.
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

// endless reports an alias inside of the value that it refers to.
func (d *Document) endless(n *yaml.Node, around []*yaml.Node) bool {
	if n.Kind == yaml.AliasNode && slices.Contains(around, n.Alias) {
		d.wrong(n, "", "*%s is inside of &%[1]s, which it refers to: a cycle", n.Value)
		return true
	}
	around = append(around, n)
	return slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return d.endless(item, around) })
}

// readable reports problems for which the message of the YAML parser is not helpful.
func (d *Document) readable(data []byte, max int64) bool {
	if int64(len(data)) > max {
		d.problem(1, 1, "the file is larger than %s", limits.Bytes(max))
		return false
	}
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		switch {
		case r == utf8.RuneError && size <= 1, r == 0 && at <= 1: // UTF-16 begins so
			d.problemAt(data, at, "not UTF-8 text; save the file as UTF-8")
			return false
		case !allowed(r):
			d.problemAt(data, at, "a control character (%U); in double quotes it can be written as \"%s\"", r, escaped(r))
			return false
		}
		at += size
	}
	return true
}

// allowed reports whether a character is allowed in YAML without escaping.
func allowed(r rune) bool {
	return r >= ' ' && r <= '~' || r == '\t' || r == '\n' || r == '\r' || r == nextLine || r >= 0xa0 && r != 0xfffe && r != 0xffff
}

// escaped is the escape sequence of a character in a double-quoted YAML string.
func escaped(r rune) string {
	switch {
	case r == nextLine:
		return `\N`
	case r == lineSeparator:
		return `\L`
	case r == paragraphSeparator:
		return `\P`
	case r <= 0xff:
		return fmt.Sprintf(`\x%02x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// The characters that only the YAML parser takes for line ends.
const (
	nextLine           = '\u0085'
	lineSeparator      = '\u2028'
	paragraphSeparator = '\u2029'
)

func endsLine(r rune) bool { return r == nextLine || r == lineSeparator || r == paragraphSeparator }

// problemAt reports a problem of the character at an offset.
func (d *Document) problemAt(data []byte, at int, format string, args ...any) {
	before := data[:at]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	d.problem(bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(line)+1, format, args...)
}

// syntax reports an error of the YAML parser. The line is only in the text of the error, and the
// parser counts more characters as line ends than editors do.
func (d *Document) syntax(data []byte, err error) {
	if at := bytes.IndexFunc(data, endsLine); at >= 0 {
		text := data
		data = bytes.Map(func(r rune) rune {
			if endsLine(r) {
				return ' '
			}
			return r
		}, data)
		if err = parsed(data); err == nil {
			r, _ := utf8.DecodeRune(text[at:])
			d.problemAt(text, at, "YAML ends a line at %U, which editors do not; in double quotes it can be written as \"%s\"", r, escaped(r))
			return
		}
	}
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if _, name, ok := strings.Cut(msg, "unknown anchor '"); ok { // the one message without a line
		name, _, _ = strings.Cut(name, "'")
		if at := aliasOf(name).FindIndex(data); at != nil {
			d.problemAt(data, at[1]-len("*"+name), "not YAML: %s", msg)
			return
		}
	}
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		number, text, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, msg = n, text
		}
	}
	if at := bytes.Index(data, []byte("%YAML")); at >= 0 && msg == "found incompatible YAML document" {
		d.problemAt(data, at, "not YAML: %s; remove this line", msg)
		return
	}
	if tab := tabIndent(data, line); tab > 0 {
		d.problem(tab, 1, "indented with a tab; YAML wants spaces")
		return
	}
	d.problem(line, indent(data, line)+1, "not YAML: %s", msg)
}

// parsed is the error of the YAML parser for a file.
func parsed(data []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// aliasOf matches the first alias of a name outside of comments and strings.
func aliasOf(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^(?:[^#"'\n]*[\[{:,\s-])?\*` + regexp.QuoteMeta(name) + `\b`)
}

// tabIndent returns the line at or next to the given one that is indented with a tab,
// or 0: the parser may report a neighbouring line.
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

// indent is the number of spaces at the beginning of a line.
func indent(data []byte, line int) int {
	lines := bytes.Split(data, []byte("\n"))
	if line > len(lines) {
		return 0
	}
	text := lines[line-1]
	return len(text) - len(bytes.TrimLeft(text, " "))
}
