package migrate

import (
	"fmt"
	"strings"
	"time"

	"github.com/bazelbuild/buildtools/build"
	"github.com/vmcp-dev/vmcp/migrate/internal/gotmpl"
)

// code is the text of a script that is being written.
type code struct {
	strings.Builder
	indent int
}

// line writes one statement, which may have several lines.
func (c *code) line(format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	c.WriteString(indented(text, c.indent))
	c.WriteByte('\n')
}

// block writes statements one level deeper.
func (c *code) block(write func()) {
	c.indent++
	start := c.Len()
	write()
	if c.Len() == start {
		c.line("pass")
	}
	c.indent--
}

// indented puts spaces before the lines of text, except inside of string literals of several lines,
// where they would change the value.
func indented(text string, depth int) string {
	pad := strings.Repeat("    ", depth)
	lines := strings.Split(text, "\n")
	inside := false
	for i, line := range lines {
		if !inside && line != "" {
			lines[i] = pad + line
		}
		if strings.Count(line, `"""`)%2 == 1 {
			inside = !inside
		}
	}
	return strings.Join(lines, "\n")
}

// literal writes a value as Starlark.
func literal(v *value) string {
	if v == nil {
		return "None"
	}
	switch d := v.Data.(type) {
	case []*value:
		items := make([]string, len(d))
		for i, e := range d {
			items[i] = literal(e)
		}
		return gotmpl.ListOf(items)
	case *mapping:
		entries := make([]string, len(d.Keys))
		for i, k := range d.Keys {
			entries[i] = gotmpl.Quote(k) + ": " + literal(d.Values[k])
		}
		return gotmpl.Dict(entries)
	}
	return literalOf(v.Data)
}

// literalOf writes a plain value as Starlark.
func literalOf(v any) string {
	switch d := v.(type) {
	case nil:
		return "None"
	case bool:
		if d {
			return "True"
		}
		return "False"
	case string:
		return gotmpl.Quote(d)
	case float64:
		return gotmpl.FloatLiteral(d)
	case *value:
		return literal(d)
	}
	return fmt.Sprint(v)
}

// durationText writes a duration in its shortest form: 1m30s, 5m.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// keyword writes a named argument.
func keyword(name, value string) string { return name + " = " + value }

func keywordText(name, text string) string { return keyword(name, gotmpl.Quote(text)) }

// format formats a script as buildifier does.
func format(source string) (string, error) {
	f, err := build.ParseDefault("script.star", []byte(source))
	if err != nil {
		return "", fmt.Errorf("the script does not parse: %w", err)
	}
	return string(build.Format(f)), nil
}

// comment writes text as comment lines.
func comment(text string) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		b.WriteString(strings.TrimRight("# "+strings.TrimSpace(line), " ") + "\n")
	}
	return b.String()
}
