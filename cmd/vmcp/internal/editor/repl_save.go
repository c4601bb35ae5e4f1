package editor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/format"
)

var testNames = regexp.MustCompile(`^test_[A-Za-z0-9_]+$`)

// save appends the runs of the tool to its file of tests, each as a test with the recorded results as
// fakes.
func (s *session) save(args []string) error {
	if len(args) < 1 || len(args) > 2 || !testNames.MatchString(args[0]) {
		return errors.New(":save wants a name such as test_refund, and perhaps a file")
	}
	if len(s.runs) == 0 {
		return errors.New(":save writes runs of a tool: start with --tool NAME and call run({...})")
	}
	file := s.o.TestFile
	if len(args) == 2 {
		file = args[1]
	}
	if !strings.HasSuffix(file, "_test.star") {
		return fmt.Errorf("a file of tests is named …_test.star, have %q", file)
	}
	var b strings.Builder
	for i, r := range s.runs {
		name := args[0]
		if i > 0 {
			name += fmt.Sprintf("_%d", i+1)
		}
		test, err := r.test(name, s.tool.Name)
		if err != nil {
			return fmt.Errorf("run %d of %d: %w", i+1, len(s.runs), err)
		}
		b.WriteString("\n" + test)
	}
	if err := s.appendTests(file, b.String()); err != nil {
		return err
	}
	s.o.Tell(fmt.Sprintf("%s: %d written; vmcp test %s", diag.File(file), len(s.runs), file))
	return nil
}

// appendTests appends tests to a file, which need not exist.
func (s *session) appendTests(file, tests string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if twice := defined(old, tests); twice != "" {
		return fmt.Errorf("%s has a function %s already", diag.File(file), twice)
	}
	text, err := format.Format(script.File{Name: file, Source: append(old, tests...)})
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

var functions = regexp.MustCompile(`(?m)^def (\w+)\(`)

// defined is a function that both texts define, or "".
func defined(a []byte, b string) string {
	for _, m := range functions.FindAllStringSubmatch(b, -1) {
		if slices.ContainsFunc(functions.FindAllSubmatch(a, -1), func(o [][]byte) bool { return string(o[1]) == m[1] }) {
			return m[1]
		}
	}
	return ""
}

// fake is a tool with its results in a run, in order.
type fake struct {
	tool    string
	answers []answer
}

// answer is one of three kinds of result.
type answer struct {
	value     json.RawMessage // structured content
	text      string          // without structured content; the message of a failure
	kind      string          // of a failure; "": none
	isFailure bool
}

// test prints a run as a function of a test file.
func (r *recordedRun) test(name, tool string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "def %s():\n", name)
	fakes, err := r.fakes()
	if err != nil {
		return "", err
	}
	for _, f := range fakes {
		line, err := f.star()
		if err != nil {
			return "", err
		}
		b.WriteString("    " + line + "\n")
	}
	for _, e := range r.effects {
		if e.Kind != "elicit" {
			continue
		}
		line, err := answerLine(e)
		if err != nil {
			return "", err
		}
		b.WriteString("    " + line + "\n")
	}
	given, err := literal(r.args)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "    r = testing.run(%s, %s)\n", quote(tool), given)
	if r.err != nil {
		fmt.Fprintf(&b, "    testing.is_false(r.ok)\n    testing.contains(r.error, %s)\n", quote(reason(r.err)))
		return b.String(), nil
	}
	field, value := "output", r.result.Structured
	if value == nil {
		field, value = "content", r.result.Content
	}
	want, err := literal(value)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "    testing.eq(r.%s, %s)\n", field, want)
	for _, f := range fakes {
		var calls []string
		for _, e := range r.effects {
			if e.Kind == "call" && e.Name == f.tool {
				args, err := literal(e.Args)
				if err != nil {
					return "", err
				}
				calls = append(calls, args)
			}
		}
		fmt.Fprintf(&b, "    testing.eq(testing.calls(%s), [%s])\n", quote(f.tool), strings.Join(calls, ", "))
	}
	return b.String(), nil
}

// reason is the message of an error without positions, which change with the script.
func reason(err error) string {
	var e *script.Error
	if errors.As(err, &e) {
		return replFirstLine(e.Msg)
	}
	return replFirstLine(err.Error())
}

// fakes are the results of the run's calls by tool, in the order of the first call of each.
func (r *recordedRun) fakes() (fakes []*fake, err error) {
	for _, e := range r.effects {
		if e.Kind != "call" {
			continue
		}
		i := slices.IndexFunc(fakes, func(f *fake) bool { return f.tool == e.Name })
		if i < 0 {
			i, fakes = len(fakes), append(fakes, &fake{tool: e.Name})
		}
		a, err := answerOf(e)
		if err != nil {
			return nil, err
		}
		fakes[i].answers = append(fakes[i].answers, a)
	}
	return fakes, nil
}

func answerOf(e script.Event) (answer, error) {
	var failure *script.Failure
	switch {
	case errors.As(e.Err, &failure):
		return answer{text: failure.Message, kind: failure.Kind, isFailure: true}, nil
	case e.Err != nil:
		return answer{text: replFirstLine(e.Err.Error()), kind: "unavailable", isFailure: true}, nil
	}
	if v := jsonscan.Get(e.Result, "structuredContent"); v != nil && string(v) != "null" {
		return answer{value: v}, nil
	}
	var text []string
	plain := true
	jsonscan.Elements(jsonscan.Get(e.Result, "content"), func(block []byte) bool {
		plain = plain && jsonscan.GetString(block, "type") == "text"
		text = append(text, jsonscan.GetString(block, "text"))
		return true
	})
	if !plain {
		return answer{}, fmt.Errorf("%s returned content other than text, which fakes cannot return", e.Name)
	}
	return answer{text: strings.Join(text, "\n")}, nil
}

// star prints the declaration of a fake.
func (f *fake) star() (string, error) {
	one := f.answers[0]
	same := !slices.ContainsFunc(f.answers, func(a answer) bool {
		return a.isFailure != one.isFailure || a.text != one.text || a.kind != one.kind || string(a.value) != string(one.value)
	})
	switch {
	case same && one.isFailure:
		return fmt.Sprintf("testing.tool(%s, fails = %s, kind = %s)", quote(f.tool), quote(one.text), quote(cmp.Or(one.kind, "tool"))), nil
	case same && one.value == nil:
		return fmt.Sprintf("testing.tool(%s, text = %s)", quote(f.tool), quote(one.text)), nil
	case same:
		v, err := literal(one.value)
		return fmt.Sprintf("testing.tool(%s, returns = %s)", quote(f.tool), v), err
	}
	var each []string
	for _, a := range f.answers {
		if a.value == nil {
			return "", fmt.Errorf("%s failed or returned text in one call and not in another, which fakes cannot do", f.tool)
		}
		v, err := literal(a.value)
		if err != nil {
			return "", err
		}
		each = append(each, v)
	}
	return fmt.Sprintf("testing.tool(%s, returns_each = [%s])", quote(f.tool), strings.Join(each, ", ")), nil
}

// answerLine prints the declaration of the answer to a question.
func answerLine(e script.Event) (string, error) {
	var result struct {
		Action  string
		Content json.RawMessage
	}
	if e.Err != nil {
		return "", fmt.Errorf("a question was not answered: %s", replFirstLine(e.Err.Error()))
	}
	if err := json.Unmarshal(e.Result, &result); err != nil {
		return "", err
	}
	line := fmt.Sprintf("testing.answer(%s", quote(jsonscan.GetString(e.Args, "message")))
	if result.Action != "accept" {
		return line + fmt.Sprintf(", action = %s)", quote(result.Action)), nil
	}
	if len(result.Content) == 0 {
		result.Content = json.RawMessage("{}")
	}
	content, err := literal(result.Content)
	return line + ", content = " + content + ")", err
}

func quote(text string) string { return syntax.Quote(text, false) }

// literal prints a JSON value as a literal of a script.
func literal(raw json.RawMessage) (string, error) {
	if !json.Valid(raw) {
		return "", fmt.Errorf("%.40q is not JSON", raw)
	}
	var b strings.Builder
	writeLiteral(&b, bytes.TrimSpace(raw))
	return b.String(), nil
}

func writeLiteral(b *strings.Builder, raw []byte) {
	separate := func(first *bool) {
		if !*first {
			b.WriteString(", ")
		}
		*first = false
	}
	first := true
	switch raw[0] {
	case '{':
		b.WriteByte('{')
		jsonscan.Each(raw, func(name, v []byte) bool {
			separate(&first)
			b.WriteString(quote(string(name)) + ": ")
			writeLiteral(b, v)
			return true
		})
		b.WriteByte('}')
	case '[':
		b.WriteByte('[')
		jsonscan.Elements(raw, func(v []byte) bool {
			separate(&first)
			writeLiteral(b, v)
			return true
		})
		b.WriteByte(']')
	case '"':
		b.WriteString(quote(jsonscan.Text(raw)))
	case 't':
		b.WriteString("True")
	case 'f':
		b.WriteString("False")
	case 'n':
		b.WriteString("None")
	default:
		b.Write(raw)
	}
}
