package check

import (
	"regexp"
	"strings"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
)

// habit is a construct of Python that Starlark does not have.
type habit struct {
	line *regexp.Regexp // on the line of the error; the first group is the construct
	says string
}

// habits are matched on the line where the parser stopped; the first match is used.
var habits = sync.OnceValue(func() []habit {
	return []habit{
		{regexp.MustCompile(`(?:^|[^\w"'])([fF][rR]?["'])`), `Starlark has no f-strings; use "...%s" % x or "{}".format(x)`},
		{regexp.MustCompile(`^\s*(try)\s*:`), "Starlark has no try; use try_call_tool, and look at .ok"},
		{regexp.MustCompile(`^\s*(except)\b`), "Starlark has no try and except; use try_call_tool, and look at .ok"},
		{regexp.MustCompile(`^\s*(finally)\b`), "Starlark has no try and finally"},
		{regexp.MustCompile(`^\s*(raise)\b`), `Starlark has no raise; use fail("...")`},
		{regexp.MustCompile(`^\s*(import)\b`), `Starlark has no import; load("file.star", "name") loads from a library`},
		{regexp.MustCompile(`^\s*(from)\s+\w+\s+import\b`), `Starlark has no import; load("file.star", "name") loads from a library`},
		{regexp.MustCompile(`^\s*(class)\b`), "Starlark has no classes; use struct(...) and functions"},
		{regexp.MustCompile(`^\s*(with)\b`), "Starlark has no with"},
		{regexp.MustCompile(`^\s*(async|await)\b`), "Starlark has no async and await; parallel([...]) runs functions concurrently"},
		{regexp.MustCompile(`\b(await)\s`), "Starlark has no await; calls wait by themselves, parallel([...]) runs functions concurrently"},
		{regexp.MustCompile(`\b(yield)\b`), "Starlark has no yield; return a list"},
		{regexp.MustCompile(`^\s*(global|nonlocal)\b`), "Starlark has no global and nonlocal; change a dict or list that is defined outside"},
		{regexp.MustCompile(`^\s*(assert)\b`), `Starlark has no assert; use if ...: fail("...")`},
		{regexp.MustCompile(`^\s*(del)\b`), "Starlark has no del; use d.pop(key)"},
		{regexp.MustCompile(`\S\s+(is)\s+(?:not\s+)?\S`), "Starlark has no is; use == or !="},
		{regexp.MustCompile(`(:=)`), "Starlark has no :=; assign on a separate line"},
		{regexp.MustCompile(`[\w)\]]\s*(\*\*)\s*[\w(]`), "Starlark has no ** operator; multiply"},
		{regexp.MustCompile(`(\+\+|--)\s*$`), "Starlark has no ++ and --; use += 1"},
		{regexp.MustCompile(`(&&|\|\|)`), "Starlark has no && and ||; use and, or"},
		{regexp.MustCompile(`(!)[^=]`), "Starlark has no !; use not"},
		{regexp.MustCompile(`^\s*(else\s+if)\b`), "Starlark has no else if; use elif"},
		{regexp.MustCompile(`^\s*(switch|match)\b.*:\s*$`), "Starlark has no match; use if and elif"},
		{regexp.MustCompile(`^\s*(?:def)\b.*(->)`), "Starlark has no type annotations; omit them"},
		{regexp.MustCompile(`^\s*def\b.*\w(:\s*\w+)`), "Starlark has no type annotations; omit them"},
	}
})

var chained = regexp.MustCompile(`does not associate with`)

// familiar replaces the message of the parser where the script uses a construct of Python.
func familiar(f script.File, p diag.Problem) diag.Problem {
	if chained.MatchString(p.Message) {
		p.Message = "Starlark has no chained comparisons; write a < b and b < c"
		return p
	}
	if strings.HasPrefix(string(f.Source), "\ufeff") {
		p.Message = "the file begins with a byte order mark; save it as UTF-8 without one"
		return p
	}
	lines := strings.Split(string(f.Source), "\n")
	shift, columns := 0, 0
	if f.Origin.Exact {
		shift, columns = f.Origin.Line-1, f.Origin.Column-1
	} else if f.Origin.Line > 0 {
		return p
	}
	for _, n := range []int{p.Line - shift, p.Line - shift - 1} {
		if n < 1 || n > len(lines) {
			continue
		}
		text := blanked(lines[n-1])
		for _, h := range habits() {
			at := h.line.FindStringSubmatchIndex(text)
			if at == nil || n < p.Line-shift && !strings.HasSuffix(strings.TrimSpace(text), ":") {
				continue
			}
			p.Line = n + shift
			p.Column = len([]rune(text[:at[2]])) + 1 + columns
			p.EndLine, p.EndColumn = p.Line, p.Column+len([]rune(text[at[2]:at[3]]))
			p.Message, p.Hint = h.says, ""
			return p
		}
	}
	return p
}

var texts = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|#.*`)

// blanked returns a line with the contents of strings and comments replaced by spaces, so that only code is left.
func blanked(line string) string {
	return texts.ReplaceAllStringFunc(line, func(s string) string {
		if s[0] == '#' {
			return strings.Repeat(" ", len(s))
		}
		return s[:1] + strings.Repeat(" ", len(s)-2) + s[len(s)-1:]
	})
}
