package format

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
)

// A Block is the text of a script in a YAML file, as a literal block scalar ("script: |").
type Block struct {
	Path string // such as scriptedTools[2].script
	Text string
	// Origin is the position of its first character.
	Origin diag.Origin
	// First and Last are its lines in the file, from 1, without blank lines after it.
	First, Last int
}

// File returns the block as a script.
func (b Block) File(name string) script.File {
	return script.File{Name: name, Source: []byte(b.Text), Origin: b.Origin}
}

// Blocks returns the scripts of scriptedTools that are literal blocks; none for invalid YAML.
func Blocks(name string, data []byte) (found []Block) {
	lines := strings.Split(string(data), "\n")
	for path, n := range scripts(data) {
		if n.Style&yaml.LiteralStyle == 0 {
			continue
		}
		text := strings.Split(strings.TrimRight(n.Value, "\n"), "\n")
		for line := n.Line + 1; line <= n.Line+3; line++ { // there may be tags, anchors and comments before it
			if indent, ok := standsAt(lines, line, text); ok {
				found = append(found, Block{Path: path, Text: n.Value, First: line, Last: line + len(text) - 1,
					Origin: diag.Origin{Pos: diag.Pos{File: diag.File(name), Line: line, Column: indent + 1}, Exact: true}})
				break
			}
		}
	}
	return found
}

// scripts yields the fields script of scriptedTools, in order.
func scripts(data []byte) func(yield func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		var doc yaml.Node
		if yaml.Unmarshal(data, &doc) != nil || doc.Kind != yaml.DocumentNode {
			return
		}
		tools := field(doc.Content[0], "scriptedTools")
		if tools == nil || tools.Kind != yaml.SequenceNode {
			return
		}
		for i, tool := range tools.Content {
			n := field(tool, "script")
			if n != nil && n.Kind == yaml.ScalarNode && !yield(fmt.Sprintf("scriptedTools[%d].script", i), n) {
				return
			}
		}
	}
}

// field returns the value of a key of a mapping; nil when there is none.
func field(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// standsAt reports whether the lines of a file from line on are those of text, with a common
// indentation, which it returns.
func standsAt(lines []string, line int, text []string) (indent int, ok bool) {
	for i, want := range text {
		if line+i > len(lines) {
			return 0, false
		}
		have := strings.TrimSuffix(lines[line+i-1], "\r")
		if want == "" {
			if strings.Trim(have, " ") != "" {
				return 0, false
			}
			continue
		}
		spaces, found := strings.CutSuffix(have, want)
		if !found || strings.Trim(spaces, " ") != "" || ok && len(spaces) != indent {
			return 0, false
		}
		indent, ok = len(spaces), true
	}
	return indent, ok
}

// FormatYAML formats the scripts of a configuration that are literal blocks, and changes no other
// byte of it. Line ends are those of the file. The error has the problems of all scripts, as of
// Format.
func FormatYAML(name string, data []byte) ([]byte, error) {
	if err := yaml.Unmarshal(data, new(yaml.Node)); err != nil {
		return nil, fmt.Errorf("%s: %w", diag.File(name), err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	var out bytes.Buffer
	var problems script.Errors
	want := map[string]string{}
	at := 0 // number of lines written
	for _, b := range Blocks(name, data) {
		text, err := Format(b.File(diag.File(name)))
		var found script.Errors
		if errors.As(err, &found) {
			problems = append(problems, found...)
			continue
		} else if err != nil {
			return nil, err
		}
		want[b.Path] = string(text)
		out.Write(bytes.Join(lines[at:b.First-1], nil))
		writeIndented(&out, string(text), b.Origin.Column-1, lineEnd(lines[b.First-1]))
		at = b.Last
	}
	if len(problems) > 0 {
		return nil, problems
	}
	out.Write(bytes.Join(lines[at:], nil))
	done := out.Bytes()
	if !bytes.HasSuffix(data, []byte("\n")) { // a block that ends the file without a line end
		done = bytes.TrimRight(done, "\r\n")
	}
	if !sameYAML(data, done, want) {
		return nil, &Bug{diag.File(name), "something else in the file would change"}
	}
	return done, nil
}

func lineEnd(line []byte) string {
	if bytes.HasSuffix(line, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

func writeIndented(out *bytes.Buffer, text string, indent int, end string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			out.WriteString(strings.Repeat(" ", indent) + line)
		}
		out.WriteString(end)
	}
}

// sameYAML reports whether two files have the same content but for the scripts in want, which
// must have the wanted text in after; blank lines at the end of a script do not count.
func sameYAML(before, after []byte, want map[string]string) bool {
	var a, b yaml.Node
	if yaml.Unmarshal(before, &a) != nil || yaml.Unmarshal(after, &b) != nil {
		return false
	}
	have := map[string]string{}
	for path, n := range scripts(after) {
		have[path] = n.Value
	}
	for path, text := range want {
		if strings.TrimRight(have[path], "\n") != strings.TrimRight(text, "\n") {
			return false
		}
	}
	return equalNodes(&a, &b, "", want)
}

func equalNodes(a, b *yaml.Node, path string, formatted map[string]string) bool {
	if _, ok := formatted[path]; ok {
		return b.Style == a.Style && b.Anchor == a.Anchor && b.Tag == a.Tag
	}
	if a.Kind != b.Kind || a.Value != b.Value || a.Tag != b.Tag || a.Anchor != b.Anchor || a.Style != b.Style || len(a.Content) != len(b.Content) {
		return false
	}
	for i := range a.Content {
		if !equalNodes(a.Content[i], b.Content[i], below(a, i, path), formatted) {
			return false
		}
	}
	return true
}

// below returns the path of the i-th content of a node.
func below(n *yaml.Node, i int, path string) string {
	switch {
	case n.Kind == yaml.MappingNode && i%2 == 1:
		return strings.TrimPrefix(path+"."+n.Content[i-1].Value, ".")
	case n.Kind == yaml.SequenceNode:
		return fmt.Sprintf("%s[%d]", path, i)
	case n.Kind == yaml.DocumentNode:
		return path
	}
	return path + ".?"
}
