package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The first words of statements that read and that write. Others are refused, above all ATTACH,
// VACUUM INTO and PRAGMA, which name files or raise limits.
var (
	readers = []string{"SELECT", "VALUES", "WITH", "EXPLAIN"}
	writers = []string{"INSERT", "REPLACE", "UPDATE", "DELETE", "WITH", "CREATE", "DROP", "ALTER"}
	created = []string{"TABLE", "INDEX", "UNIQUE", "VIEW"}
)

// forbidden are names of access that bypasses the tables: raw pages and native code.
var forbidden = []string{"sqlite_dbpage", "load_extension", "fts3_tokenizer"}

// checkSQL accepts one statement that begins with one of the allowed words. Values
// belong in parameters, and only ? can mark them: SQLite's other marks, such as
// $a(';'), hide text from a reader that does not know all their rules.
func checkSQL(src string, allowed []string) error {
	l := lexer{src: src}
	var head []string
	ended := false
	for {
		tok, err := l.next()
		if err != nil {
			return err
		}
		if tok == "" {
			break
		}
		if tok == ";" {
			ended = true
			continue
		}
		if ended {
			return errors.New("want one statement per call")
		}
		if err := checkName(tok); err != nil {
			return err
		}
		if len(head) < 4 {
			head = append(head, strings.ToUpper(tok))
		}
	}
	return checkHead(head, allowed)
}

func checkName(tok string) error {
	name := strings.ToLower(tok)
	if strings.HasPrefix(name, "pragma_") || slices.Contains(forbidden, name) {
		return fmt.Errorf("%s may not be used here", tok)
	}
	return nil
}

// checkHead checks the first words of a statement. A statement after EXPLAIN is checked
// too, because SQLite executes some pragmas when it compiles them.
func checkHead(head, allowed []string) error {
	if len(head) == 0 {
		return errors.New("no statement")
	}
	if !slices.Contains(allowed, head[0]) {
		return fmt.Errorf("want %s, have %s", strings.Join(allowed, ", "), head[0])
	}
	switch {
	case head[0] == "EXPLAIN" && len(head) > 3 && head[1] == "QUERY" && head[2] == "PLAN":
		return checkHead(head[3:], readers[:3])
	case head[0] == "EXPLAIN":
		return checkHead(head[1:], readers[:3])
	case head[0] == "CREATE" && len(head) > 1 && !slices.Contains(created, head[1]):
		return fmt.Errorf("CREATE %s: want %s", head[1], strings.Join(created, ", "))
	}
	return nil
}

// lexer splits SQL into the tokens of SQLite. Quoted names and strings are returned without quotes,
// since SQLite accepts 'name' as a name in some places.
type lexer struct {
	src string
	pos int
}

// next returns the next token, or "" at the end.
func (l *lexer) next() (string, error) {
	if err := l.skip(); err != nil || l.pos == len(l.src) {
		return "", err
	}
	c := l.src[l.pos]
	switch {
	case isName(c):
		return l.take(isName), nil
	case strings.IndexByte("'\"`[", c) >= 0:
		return l.quoted()
	case strings.IndexByte("$@:#\x00", c) >= 0:
		return "", fmt.Errorf("unexpected %q: mark values with ? and give them in params", c)
	}
	l.pos++
	return string(c), nil
}

func isName(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

func (l *lexer) take(in func(byte) bool) string {
	start := l.pos
	for l.pos < len(l.src) && in(l.src[l.pos]) {
		l.pos++
	}
	return l.src[start:l.pos]
}

// skip skips white space, comments, and the byte order mark, which SQLite treats as a space.
func (l *lexer) skip() error {
	for {
		rest := l.src[l.pos:]
		switch {
		case rest == "":
			return nil
		case strings.IndexByte(" \t\n\r\f", rest[0]) >= 0:
			l.pos++
		case strings.HasPrefix(rest, "\ufeff"):
			l.pos += len("\ufeff")
		case strings.HasPrefix(rest, "--"):
			l.pos += lineEnd(rest)
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return errors.New("a comment /* has no end")
			}
			l.pos += end + 4
		default:
			return nil
		}
	}
}

func lineEnd(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}

func (l *lexer) quoted() (string, error) {
	open := l.src[l.pos]
	end := open
	if open == '[' {
		end = ']'
	}
	var b strings.Builder
	for i := l.pos + 1; i < len(l.src); i++ {
		c := l.src[i]
		switch {
		case c == 0:
			return "", errors.New("unexpected NUL")
		case c != end:
			b.WriteByte(c)
		case open != '[' && i+1 < len(l.src) && l.src[i+1] == end:
			b.WriteByte(c)
			i++
		default:
			l.pos = i + 1
			return b.String(), nil
		}
	}
	return "", fmt.Errorf("a quote %c has no end", open)
}
