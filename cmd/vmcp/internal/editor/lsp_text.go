package editor

import (
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// text is the text of a document, with the offsets of its lines.
type text struct {
	src    string
	starts []int
}

func newText(src string) *text {
	t := &text{src: src, starts: []int{0}}
	for i := range len(src) {
		if src[i] == '\n' {
			t.starts = append(t.starts, i+1)
		}
	}
	return t
}

// line is a line by its number from 0, without the line break.
func (t *text) line(n int) string {
	if n < 0 || n >= len(t.starts) {
		return ""
	}
	end := len(t.src)
	if n+1 < len(t.starts) {
		end = t.starts[n+1] - 1
	}
	return strings.TrimSuffix(t.src[t.starts[n]:end], "\r")
}

// offset is the offset in bytes of a position; for one outside of the text, of the nearest.
func (t *text) offset(p position) int {
	if p.Line < 0 {
		return 0
	}
	if p.Line >= len(t.starts) {
		return len(t.src)
	}
	at := t.starts[p.Line]
	for units, line := 0, t.line(p.Line); units < p.Character && len(line) > 0; {
		r, size := utf8.DecodeRuneInString(line)
		if units += units16(r); units > p.Character {
			break // inside a surrogate pair
		}
		at, line = at+size, line[size:]
	}
	return at
}

func units16(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

// length16 is the length of a text in UTF-16 code units.
func length16(s string) (n int) {
	for _, r := range s {
		n += units16(r)
	}
	return n
}

// place is the position of a line and a column, which count from 1, columns in characters.
func (t *text) place(line, column int) position {
	p := position{Line: max(line-1, 0)}
	rest := t.line(p.Line)
	for i := 1; i < column && rest != ""; i++ {
		r, size := utf8.DecodeRuneInString(rest)
		p.Character += units16(r)
		rest = rest[size:]
	}
	return p
}

// column is the line and column of a position; both count from 1, columns in characters.
func (t *text) column(p position) (line, column int) {
	at := t.offset(p)
	line = min(max(p.Line, 0), len(t.starts)-1)
	return line + 1, utf8.RuneCountInString(t.src[t.starts[line]:max(at, t.starts[line])]) + 1
}

// span is the range of a problem; without an end, that of the word at its beginning.
func (t *text) span(from diag.Pos, endLine, endColumn int) textRange {
	r := textRange{Start: t.place(from.Line, from.Column)}
	if r.End = r.Start; endLine > 0 {
		r.End = t.place(endLine, endColumn)
	}
	if r.End == r.Start || less(r.End, r.Start) {
		at := t.offset(r.Start)
		word := len(t.src[at:]) - len(strings.TrimLeftFunc(t.src[at:], lspIsWord))
		r.End = position{Line: r.Start.Line, Character: r.Start.Character + max(length16(t.src[at:at+word]), 1)}
	}
	return r
}

func less(a, b position) bool {
	return a.Line < b.Line || a.Line == b.Line && a.Character < b.Character
}

// changed is the text with a range replaced.
func (t *text) changed(r textRange, with string) *text {
	from, to := t.offset(r.Start), t.offset(r.End)
	return newText(t.src[:min(from, to)] + with + t.src[max(from, to):])
}

// pathOf is the path of a file URI; "" for others.
func pathOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Path == "" {
		return ""
	}
	path := u.Path
	if runtime.GOOS == "windows" && len(path) > 2 && path[0] == '/' && path[2] == ':' {
		path = path[1:]
	}
	return filepath.Clean(filepath.FromSlash(path))
}

// uriOf is the URI of a file.
func uriOf(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
