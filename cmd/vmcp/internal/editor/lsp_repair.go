package editor

import (
	"errors"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// known is the result of the last check, if it has a tree of the script at the place. If not, since the script
// was never free of syntax errors or is a new file, it is a check of the repaired text.
func (q *query) known() *check.Program {
	if q.program.Tree(q.file(), q.line) != nil || isYAML(q.doc.path) {
		return q.program
	}
	if r := q.doc.repaired; r.program != nil && r.text == q.doc.text && r.line == q.line && r.of == q.program {
		return r.program
	}
	text, ok := repaired(q.doc.text.src, q.line)
	if !ok {
		return q.program
	}
	src := sourceOf(script.File{Name: q.doc.path, Source: []byte(text), Origin: diag.InFile(q.doc.path)})
	q.doc.repaired = repair{q.doc.text, q.line, q.program, q.program.Alone(src, check.Options{Builtins: q.builtins})}
	return q.doc.repaired.program
}

// repair is the check of a repaired text, which is reused for further requests at the same line of the same text.
type repair struct {
	text    *text
	line    int
	of      *check.Program
	program *check.Program
}

// mostRepairs bounds the lines that are replaced.
const mostRepairs = 20

// repaired replaces the line that is being edited, and others that cannot be parsed, by pass;
// ok is false when the text still has a syntax error after mostRepairs lines.
func repaired(src string, line int) (text string, ok bool) {
	lines := strings.SplitAfter(src, "\n")
	for range mostRepairs {
		if line < 1 || line > len(lines) {
			return "", false
		}
		lines[line-1] = idle(lines[line-1])
		text := strings.Join(lines, "")
		_, err := script.Parse(script.File{Name: "x", Source: []byte(text)}, script.Limits{})
		if err == nil {
			return text, true
		}
		one, isOne := errors.AsType[*script.Error](err)
		if !isOne {
			return "", false
		}
		if line = min(int(one.Pos.Line), len(lines)); strings.TrimSpace(lines[line-1]) == "pass" || strings.TrimSpace(lines[line-1]) == "" {
			line-- // the line before is incomplete
		}
	}
	return "", false
}

// idle is pass, with the indentation and the end of another line.
func idle(line string) string {
	rest := strings.TrimLeft(line, " \t")
	end := line[len(strings.TrimRight(line, "\r\n")):]
	return line[:len(line)-len(rest)] + "pass" + end
}
