package policy

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// The errors of Cedar's parser have the position of the token after the wrong one, and terms of the parser's
// code. This file translates them.

var (
	parseError = regexp.MustCompile(`(?s)parse error at [^"]*?(\d+):(\d+) ".*?": (.*)$`)
	scanError  = regexp.MustCompile(`(?s)<input>:(\d+):(\d+): (.*)$`)
	unexpected = regexp.MustCompile(`(?s)^(?:exact )?got (.*) want (.*)$`)
	quoted     = regexp.MustCompile("`(.*)`")
	badNumber  = regexp.MustCompile(`strconv\.\w+: parsing "(\d+)": (.*)$`)
)

// mistake returns the position and the description of a syntax error in a policy text.
func mistake(text, err string) (line, column int, what string) {
	if m := parseError.FindStringSubmatch(err); m != nil {
		at := offset(text, m[1], m[2])
		what = m[3]
		u := unexpected.FindStringSubmatch(what)
		name := quoted.FindStringSubmatch(what)
		switch {
		case u != nil && u[1] == "":
			what = fmt.Sprintf("want %q before the end", u[2])
		case u != nil:
			at = before(text, at, u[1])
			what = fmt.Sprintf("want %q, have %q", u[2], u[1])
		case name != nil:
			at = before(text, at, name[1])
		default:
			at = tokenBefore(text, at)
			if token, ok := strings.CutPrefix(what, "unexpected effect: "); ok {
				what = fmt.Sprintf("want permit or forbid, have %q", token)
			} else if what == "invalid primary" {
				what = "want an expression"
			}
		}
		line, column = place(text, at)
		return line, column, what
	}
	if m := scanError.FindStringSubmatch(err); m != nil {
		line, column = place(text, offset(text, m[1], m[2]))
		return line, column, m[3]
	}
	if m := badNumber.FindStringSubmatch(err); m != nil {
		line, column = place(text, max(0, strings.Index(text, m[1])))
		return line, column, m[1] + ": " + m[2]
	}
	return 1, 1, err
}

// offset returns the byte offset of a line and column.
func offset(text, line, column string) int {
	l, _ := strconv.Atoi(line)
	c, _ := strconv.Atoi(column)
	at := 0
	for ; l > 1; l-- {
		end := strings.IndexByte(text[at:], '\n')
		if end < 0 {
			return len(text)
		}
		at += end + 1
	}
	for ; c > 1 && at < len(text); c-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}

// place returns the line and column, in characters, of a byte offset.
func place(text string, at int) (line, column int) {
	before := text[:min(at, len(text))]
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

// before returns the offset of the last token before the offset at; at if there is none.
func before(text string, at int, token string) int {
	if i := strings.LastIndex(text[:min(at, len(text))], token); i >= 0 && token != "" {
		return i
	}
	return at
}

// tokenBefore returns the offset at which the token before the offset at begins.
func tokenBefore(text string, at int) int {
	head := strings.TrimRightFunc(text[:min(at, len(text))], unicode.IsSpace)
	word := strings.TrimRightFunc(head, func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) })
	if len(word) < len(head) {
		return len(word)
	}
	_, size := utf8.DecodeLastRuneInString(head)
	return max(0, len(head)-size)
}

// parseProblem returns a problem for an error of the parser.
func parseProblem(t config.PolicyText, err error) diag.Problem {
	line, column, what := mistake(t.Text, strings.TrimPrefix(err.Error(), "parser error: "))
	p := diag.Problem{Pos: within(t, line, column), Path: pathOf(t), Code: code, Message: "not Cedar: " + what}
	if !t.Origin.Exact {
		p.Message = fmt.Sprintf("not Cedar, line %d, column %d of the text: %s", line, column, what)
	}
	return p
}
