package builtins

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/internal/regex"
	"github.com/vmcp-dev/vmcp/script"
)

// Bounds on one pattern.
const (
	maxPattern      = regex.MaxBytes
	maxInstructions = 10_000
	maxGroups       = 100
)

// expanded returns about how many instructions an expression has with its counted repetitions expanded.
func expanded(re *syntax.Regexp) int64 {
	n := int64(1)
	if re.Op == syntax.OpLiteral {
		n = int64(len(re.Rune))
	}
	for _, sub := range re.Sub {
		n += expanded(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= int64(max(re.Min, re.Max, 1))
	}
	return n
}

// pattern is a compiled regular expression with its cost.
type pattern struct {
	re   *regexp.Regexp
	size int64 // instructions, more when they carry groups
	// behind is the same expression after one character of context; nil when it has no ^, \b or the like, so that it
	// does not depend on the text before.
	behind *regexp.Regexp
}

// patternKey is the key under which a run keeps a pattern (Run.Memo).
type patternKey string

// compilePattern returns the pattern of a text. A run compiles it, and is charged for it, once.
func compilePattern(t *starlark.Thread, text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("the pattern has %d bytes, the limit is %s", len(text), script.Bytes(maxPattern))
	}
	p, err := script.RunOf(t).Memo(patternKey(text), func() (any, error) { return newPattern(t, text) })
	if err != nil {
		return nil, err
	}
	return p.(*pattern), nil
}

func newPattern(t *starlark.Thread, text string) (*pattern, error) {
	if err := script.Work(t, regex.Cost(text)); err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if expanded(tree) > maxInstructions || tree.MaxCap() > maxGroups {
		return nil, errors.New("the pattern is too large with its counted repetitions expanded")
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	p := &pattern{re: re, size: int64(len(prog.Inst)) * int64(1+re.NumSubexp()/4)}
	classes := 0
	for _, inst := range prog.Inst {
		classes += len(inst.Rune)
	}
	for _, inst := range prog.Inst {
		const behind = syntax.EmptyBeginLine | syntax.EmptyBeginText | syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary
		if inst.Op == syntax.InstEmptyWidth && syntax.EmptyOp(inst.Arg)&behind != 0 {
			p.behind, err = regexp.Compile(`\A(?s:.)(?s:.*?)(` + text + `)`)
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if err := script.Charge(t, p.size*128+int64(classes)*classWeight+int64(len(text))*textWeight); err != nil {
		return nil, err
	}
	return p, script.Work(t, p.size)
}

const (
	// classWeight is for a bound of a character class: 4 bytes in each of the two expressions, and as much again in
	// the one-pass form.
	classWeight = 16
	// textWeight is how many copies of a pattern's text are kept.
	textWeight = 4
)

// instructionsPerStep is how many instructions of the matcher are charged as one step.
const instructionsPerStep = 256

// find returns the first match in text at or after pos, as offsets of its groups.
func (p *pattern) find(t *starlark.Thread, text string, pos int) ([]int, error) {
	if p.behind == nil || pos == 0 {
		return p.run(t, p.re, text, pos)
	}
	_, width := utf8.DecodeLastRuneInString(text[:pos])
	loc, err := p.run(t, p.behind, text, pos-width)
	if len(loc) > 2 {
		loc = loc[2:]
	}
	return loc, err
}

func (p *pattern) run(t *starlark.Thread, re *regexp.Regexp, text string, pos int) ([]int, error) {
	in := &meteredRunes{thread: t, text: text[pos:], cost: p.size}
	loc := re.FindReaderSubmatchIndex(in)
	if in.err == nil {
		in.pay()
	}
	if in.err != nil {
		return nil, in.err
	}
	for i := range loc {
		if loc[i] >= 0 {
			loc[i] += pos
		}
	}
	return loc, nil
}

// meteredRunes is the input of the matcher; it charges the run for what is read.
type meteredRunes struct {
	thread *starlark.Thread
	text   string
	pos    int
	paid   int
	cost   int64
	err    error
}

// ReadRune returns the next character, or io.EOF when a limit is reached.
func (m *meteredRunes) ReadRune() (rune, int, error) {
	if m.pos == len(m.text) || m.err != nil {
		return 0, 0, io.EOF
	}
	if m.pos-m.paid >= 1024 {
		m.pay()
	}
	r, n := utf8.DecodeRuneInString(m.text[m.pos:])
	m.pos += n
	return r, n, nil
}

func (m *meteredRunes) pay() {
	m.err = script.Work(m.thread, int64(m.pos-m.paid)*m.cost/instructionsPerStep)
	m.paid = m.pos
}

// payMatch charges for a match, however short the text that was read for it.
func (p *pattern) payMatch(t *starlark.Thread, loc []int) error {
	if err := script.Work(t, 2); err != nil {
		return err
	}
	return script.Charge(t, 64+16*int64(len(loc)))
}

// each calls f for every match, up to limit; a negative limit is none.
func (p *pattern) each(t *starlark.Thread, text string, limit int, f func(loc []int) error) error {
	last := -1 // end of the previous match
	for pos := 0; pos <= len(text) && limit != 0; {
		loc, err := p.find(t, text, pos)
		if err != nil || loc == nil {
			return err
		}
		if empty := loc[0] == loc[1]; !empty || loc[0] != last {
			if err := p.payMatch(t, loc); err != nil {
				return err
			}
			if err := f(loc); err != nil {
				return err
			}
			limit--
		}
		last, pos = loc[1], loc[1]
		if loc[0] == loc[1] {
			_, width := utf8.DecodeRuneInString(text[pos:])
			pos += max(width, 1)
		}
	}
	return nil
}
