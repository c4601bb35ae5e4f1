package check

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/codes"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// suppression is a comment such as "# vmcp: ok(retry-twice) the shop asks for it".
type suppression struct {
	codes    []string
	at       diag.Pos // of the comment
	end      int      // column after it
	from, to int      // lines whose problems it suppresses
	used     map[string]bool
}

var suppressing = regexp.MustCompile(`^#\s*vmcp:\s*ok\(([^)]*)\)`)

// suppress removes the problems that comments of the files allow, and warns about comments that allow none; for codes
// that need the tools only where these are known.
func suppress(found diag.Problems, files []*checked, toolsKnown bool) diag.Problems {
	var all []*suppression
	for _, f := range files {
		for _, s := range f.suppressions {
			one := *s
			one.used = map[string]bool{}
			all = append(all, &one)
		}
	}
	if len(all) == 0 {
		return found
	}
	kept := slices.DeleteFunc(found, func(p diag.Problem) bool {
		if codes.Fixed(p.Code) {
			return false
		}
		hidden := false
		for _, s := range all {
			if s.at.File == p.File && s.from <= p.Line && p.Line <= s.to && slices.Contains(s.codes, p.Code) {
				s.used[p.Code], hidden = true, true
			}
		}
		return hidden
	})
	for _, s := range all {
		for _, code := range s.codes {
			if c, known := codes.Find(code); !s.used[code] && (toolsKnown || !known || c.Needs == "S") {
				kept = append(kept, s.unused(code))
			}
		}
	}
	return kept
}

func (s *suppression) unused(code string) diag.Problem {
	p := diag.Problem{Pos: s.at, EndLine: s.at.Line, EndColumn: s.end, Severity: diag.Warning, Code: "suppression-unused",
		Message: "there is no " + code + " to suppress here"}
	switch _, known := codes.Find(code); {
	case !known:
		p.Message = "there is no code " + code
	case codes.Fixed(code):
		p.Message = code + " cannot be suppressed: no script with this problem runs"
	}
	return p
}

// suppressions returns the suppressing comments of a file; the tree shows which lines are inside strings.
func suppressions(f *checked) (list []*suppression) {
	if !bytes.Contains(f.source.Source, []byte("vmcp:")) || !f.source.Origin.Exact && f.source.Origin.Line != 0 {
		return nil
	}
	lines := strings.Split(string(f.source.Source), "\n")
	shift, columns := 0, 0
	if f.source.Origin.Exact {
		shift, columns = f.source.Origin.Line-1, f.source.Origin.Column-1
	}
	within := textLines(f.tree)
	for i, line := range lines {
		at := commentOf(line)
		if at < 0 {
			continue
		}
		m := suppressing.FindStringSubmatch(line[at:])
		if m == nil || within[int32(i+1+shift)] {
			continue
		}
		n := i + 1 + shift
		s := &suppression{at: diag.Pos{File: f.tree.Path, Line: n, Column: utf8.RuneCountInString(line[:at]) + 1 + columns}, from: n, to: n}
		s.end = s.at.Column + utf8.RuneCountInString(strings.TrimRight(m[0], "\r"))
		for code := range strings.SplitSeq(m[1], ",") {
			if code = strings.TrimSpace(code); code != "" {
				s.codes = append(s.codes, code)
			}
		}
		if strings.TrimSpace(line[:at]) == "" {
			s.from, s.to = below(f.tree, lines, i, shift)
		}
		list = append(list, s)
	}
	return list
}

// commentOf returns where the comment of a line begins; -1 if it has none.
func commentOf(line string) int {
	i := strings.Index(texts.ReplaceAllStringFunc(line, func(s string) string {
		if s[0] == '#' {
			return s
		}
		return strings.Repeat("x", len(s))
	}), "#")
	return i
}

// below returns the lines that a comment alone on its line covers: the next one with code, or all of the function that
// begins there.
func below(tree *syntax.File, lines []string, i, shift int) (from, to int) {
	n := i + 1
	for n < len(lines) && (strings.TrimSpace(lines[n]) == "" || strings.HasPrefix(strings.TrimSpace(lines[n]), "#")) {
		n++
	}
	from, to = n+1+shift, n+1+shift
	syntax.Walk(tree, func(x syntax.Node) bool {
		if d, ok := x.(*syntax.DefStmt); ok && int(d.Def.Line) == from {
			_, end := d.Span()
			to = int(end.Line)
		}
		return true
	})
	return from, to
}

// textLines returns the lines inside strings of several lines, without their first.
func textLines(tree *syntax.File) map[int32]bool {
	within := map[int32]bool{}
	syntax.Walk(tree, func(x syntax.Node) bool {
		if lit, ok := x.(*syntax.Literal); ok && lit.Token == syntax.STRING {
			for i := range strings.Count(lit.Raw, "\n") {
				within[lit.TokenPos.Line+int32(i)+1] = true
			}
		}
		return true
	})
	return within
}
