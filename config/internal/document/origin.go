package document

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// note records the origin of a string if it is a literal block scalar.
func (d *Document) note(n *yaml.Node, path string) {
	if n.Style&yaml.LiteralStyle == 0 {
		return
	}
	// The position of the node is that of the |, or of a tag or an anchor before it. The
	// syntax in between (comments, indentation indicators, line breaks) is not parsed here:
	// the lines of the string are searched in the following lines of the file.
	text := strings.Split(n.Value, "\n")
	for line := n.Line + 1; line <= n.Line+3; line++ {
		if indent, ok := d.standsAt(line, text); ok {
			d.Origins[path] = diag.Origin{Pos: diag.Pos{File: d.File, Line: line, Column: indent + 1}, Exact: true}
			return
		}
	}
}

// standsAt reports whether the lines of a string are in the file from a line on, and with which
// indentation.
func (d *Document) standsAt(line int, text []string) (indent int, ok bool) {
	for i, want := range text {
		if want == "" {
			if strings.Trim(d.line(line+i), " ") != "" && i+1 < len(text) {
				return 0, false
			}
			continue
		}
		spaces, found := strings.CutSuffix(d.line(line+i), want)
		if !found || strings.Trim(spaces, " ") != "" || ok && len(spaces) != indent {
			return 0, false
		}
		indent, ok = len(spaces), true
	}
	return indent, ok
}

// line is a line of the file by its number; "" after the last one.
func (d *Document) line(n int) string {
	if n > len(d.lines) {
		return ""
	}
	return strings.TrimSuffix(d.lines[n-1], "\r")
}
