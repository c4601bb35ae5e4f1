package format

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bazelbuild/buildtools/build"
	"go.starlark.net/syntax"
)

// disguised is a text that buildifier can parse, with what is to be restored.
type disguised struct {
	text     []byte
	literals map[int]string // by offset in text: the literal to print
	whiles   map[int]bool
}

// edit is a piece of a text that is replaced.
type edit struct {
	start, end int
	text       string
	node       syntax.Node // the node that is replaced; nil: the indentation of a statement
}

// disguise replaces the parts of a text that buildifier cannot parse: a literal by one with as many
// characters and lines, while by an if of the same length, and indentation by spaces. restore finds
// them by their offsets.
func disguise(tree *syntax.File, src []byte) *disguised {
	t := newLines(src)
	edits := t.indentations(tree.Stmts)
	inLoad := map[syntax.Node]bool{}
	syntax.Walk(tree, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.LoadStmt:
			inLoad[n.Module] = true
		case *syntax.WhileStmt:
			at := t.offset(n.While)
			edits = append(edits, edit{start: at, end: at + len("while"), text: "if   ", node: n})
		case *syntax.Literal:
			if !inLoad[n] {
				at := t.offset(n.TokenPos)
				edits = append(edits, edit{start: at, end: at + len(n.Raw), text: placeholder(n), node: n})
			}
		}
		return true
	})
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	return apply(src, edits)
}

func apply(src []byte, edits []edit) *disguised {
	d := &disguised{literals: map[int]string{}, whiles: map[int]bool{}}
	var out bytes.Buffer
	at := 0
	for _, e := range edits {
		out.Write(src[at:e.start])
		switch n := e.node.(type) {
		case *syntax.WhileStmt:
			d.whiles[out.Len()] = true
		case *syntax.Literal:
			if e.start > 0 && isWord(src[e.start-1]) && !isString(n) { // in.5
				out.WriteByte(' ')
			}
			d.literals[out.Len()] = quoted(n)
			if e.end < len(src) && isWord(src[e.end]) && !isString(n) { // 5if
				e.text += " "
			}
		}
		out.WriteString(e.text)
		at = e.end
	}
	out.Write(src[at:])
	d.text = out.Bytes()
	return d
}

func isString(l *syntax.Literal) bool { return l.Token == syntax.STRING || l.Token == syntax.BYTES }

func isWord(c byte) bool {
	return c == '_' || c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// placeholder returns a literal with as many bytes and lines as another one.
func placeholder(l *syntax.Literal) string {
	if !isString(l) {
		return strings.Repeat("x", len(l.Raw)) // a name: buildifier parses 5. and .5 differently
	}
	prefix, quotes, content := cut(l.Raw)
	plain := func(r rune) rune {
		if r == '\n' {
			return r
		}
		return 'x'
	}
	var b strings.Builder
	for _, c := range []byte(content) { // byte for byte
		b.WriteRune(plain(rune(c)))
	}
	if len(quotes) == 1 && strings.Contains(content, "\n") { // a backslash at the end of a line
		return `"` + strings.ReplaceAll(strings.Repeat("x", len(prefix))+b.String(), "\n", "x") + `"`
	}
	return quotes + strings.Repeat("x", len(prefix)) + b.String() + quotes
}

// cut splits the token of a string.
func cut(raw string) (prefix, quotes, content string) {
	i := strings.IndexAny(raw, `"'`)
	n := 1
	if rest := raw[i:]; len(rest) >= 6 && rest[1] == rest[0] && rest[2] == rest[0] {
		n = 3
	}
	return raw[:i], raw[i : i+n], raw[i+n : len(raw)-n]
}

// quoted returns a literal as it is printed: unchanged, but strings in double quotes where
// that needs no other change.
func quoted(l *syntax.Literal) string {
	if !isString(l) {
		return l.Raw
	}
	prefix, quotes, content := cut(l.Raw)
	if quotes[0] == '"' || strings.Contains(content, `"`) {
		return l.Raw
	}
	if raw := strings.Contains(prefix, "r"); raw && strings.Contains(content, `\'`) {
		return l.Raw
	}
	var b strings.Builder
	for i := 0; i < len(content); i++ {
		if content[i] == '\\' && i+1 < len(content) && !strings.Contains(prefix, "r") {
			if i++; content[i] != '\'' {
				b.WriteByte('\\')
			}
		}
		b.WriteByte(content[i])
	}
	quotes = strings.Repeat(`"`, len(quotes))
	return prefix + quotes + b.String() + quotes
}

// whileMark is printed for while: an if with a NUL, which no script contains, of the same length
// as "while ", so that the lines of a long condition are aligned.
const whileMark = "if \x00  "

// restore puts the replaced parts back into a tree.
func (d *disguised) restore(f *build.File) error {
	literals, whiles := 0, 0
	build.Edit(f, func(x build.Expr, _ []build.Expr) build.Expr {
		start, _ := x.Span()
		switch x := x.(type) {
		case *build.StringExpr:
			if token, ok := d.literals[start.Byte]; ok {
				literals++
				return &build.LiteralExpr{Comments: x.Comments, Start: start, Token: token}
			}
		case *build.Ident:
			if token, ok := d.literals[start.Byte]; ok {
				literals++
				return &build.LiteralExpr{Comments: x.Comments, Start: start, Token: token}
			}
		case *build.DotExpr:
			if n, ok := x.X.(*build.Ident); ok && d.literals[n.NamePos.Byte] != "" {
				d.literals[n.NamePos.Byte] += " " // 1.x would be parsed as a number
			}
		case *build.IfStmt:
			if d.whiles[x.If.Byte] {
				whiles++
				x.Cond = &build.AssignExpr{LHS: &build.LiteralExpr{Token: "\x00"}, RHS: x.Cond}
			}
			if next, ok := onlyIf(x.False); ok && d.whiles[next.If.Byte] {
				x.False = append(x.False, nil) // prevents an elif
			}
		}
		return nil
	})
	if literals != len(d.literals) || whiles != len(d.whiles) {
		return fmt.Errorf("%d of %d literals and %d of %d while statements were found again", literals, len(d.literals), whiles, len(d.whiles))
	}
	return nil
}

func onlyIf(block []build.Expr) (*build.IfStmt, bool) {
	if len(block) != 1 {
		return nil, false
	}
	s, ok := block[0].(*build.IfStmt)
	return s, ok
}

// lines converts positions to offsets.
type lines struct {
	src    []byte
	starts []int
}

func newLines(src []byte) *lines {
	l := &lines{src: src, starts: []int{0}}
	for i, c := range src {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

// offset returns the byte offset of a position; columns count characters.
func (l *lines) offset(p syntax.Position) int {
	at := l.starts[p.Line-1]
	for range p.Col - 1 {
		_, size := utf8.DecodeRune(l.src[at:])
		at += size
	}
	return at
}

// indentations returns the edits that put every block on separate lines and indent it by four
// spaces: buildifier does not support tabs, nor a comment after "if x: y".
func (l *lines) indentations(block []syntax.Stmt) []edit {
	var edits []edit
	eachStatement(block, 0, func(p syntax.Position, depth int, first bool) {
		start, at := l.starts[p.Line-1], l.offset(p)
		indent := strings.Repeat("    ", depth)
		switch alone := len(bytes.TrimSpace(l.src[start:at])) == 0; {
		case alone:
			edits = append(edits, edit{start: start, end: at, text: indent})
		case first:
			edits = append(edits, edit{start: at, end: at, text: "\n" + indent})
		}
	})
	return edits
}

// eachStatement calls f with the position of each statement and each else, its depth, and
// whether it is the first of its block.
func eachStatement(block []syntax.Stmt, depth int, f func(at syntax.Position, depth int, first bool)) {
	for i, s := range block {
		start, _ := s.Span()
		f(start, depth, i == 0 && depth > 0)
		switch s := s.(type) {
		case *syntax.DefStmt:
			eachStatement(s.Body, depth+1, f)
		case *syntax.ForStmt:
			eachStatement(s.Body, depth+1, f)
		case *syntax.WhileStmt:
			eachStatement(s.Body, depth+1, f)
		case *syntax.IfStmt:
			eachStatement(s.True, depth+1, f)
			if len(s.False) == 0 {
				continue
			}
			if next, ok := s.False[0].(*syntax.IfStmt); ok && next.If == s.ElsePos { // elif
				eachStatement(s.False, depth, f)
				continue
			}
			f(s.ElsePos, depth, false)
			eachStatement(s.False, depth+1, f)
		}
	}
}
