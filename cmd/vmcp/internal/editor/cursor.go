package editor

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// This part of the package finds what is being written at the end of a piece of Starlark:
// a name, field, key or string, and inside which call, dict or index. It reads tokens
// only, so that the text need not be a complete script.
//
//	At(`r = call_tool("shop_get_order", {"i`)
//	// a key "i" of the second argument of call_tool, whose first is "shop_get_order"

// Kind is what is being written.
type Kind int

// The kinds of what can be written.
const (
	Nothing  Kind = iota // a comment, a number, the end of an expression
	name                 // a name, or a place where one may begin
	field                // the name after a dot
	inText               // a string
	key                  // a string that is a key of a dict
	index                // a string between brackets after an expression
	Argument             // a name that may be that of a parameter of a call
)

// Context is what is being written at a place, and what is around it.
type Context struct {
	Kind Kind
	Word string // what is written of it so far, without the quote
	// Quote is the prefix and quote that a string begins with; "" for others.
	Quote string
	// Of is the expression before the dot or the bracket.
	Of *Path
	// Call is the innermost call around the place, Arg the number of the argument there, and Key its
	// name.
	Call *Path
	Arg  int
	Key  string
	// Tool is the first argument of Call, if that is a string literal.
	Tool string
	// Keys are the keys of the dict that are complete, and Depth is the number of dicts around the place in
	// the argument: 1 for the argument's own keys.
	Keys  []string
	Depth int
}

// Path is an expression as far as tokens show it: a name or a call, and the fields, keys and elements taken from it.
type Path struct {
	Name  string // the name that it begins with, or the function of a call
	Call  bool
	Tool  string // of a call: its first argument, if that is a string literal
	Steps []Step
}

// Step is one field, key or element that is taken.
type Step struct {
	Name  string // "" for an element by number
	Field bool   // after a dot
}

// String is the path as it is written, without arguments.
func (p *Path) String() string {
	if p == nil {
		return ""
	}
	text := p.Name
	if p.Call {
		text += "()"
	}
	for _, s := range p.Steps {
		if s.Field {
			text += "." + s.Name
		} else {
			text += "[" + s.Name + "]"
		}
	}
	return text
}

func (p *Path) with(s Step) *Path {
	q := *p
	q.Steps = append(q.Steps[:len(q.Steps):len(q.Steps)], s)
	return &q
}

// frame is an open bracket.
type frame struct {
	open  byte
	of    *Path // the expression before it, of a call or an index; nil: a list, a tuple, a dict
	arg   int
	key   string // of the argument
	value bool   // of a dict: after a colon
	keys  []string
	// single is the content of the bracket if that is one literal.
	single *string
	number bool
	tokens int
	tool   string
}

type scanner struct {
	src    string
	at     int
	frames []*frame
	last   *Path   // the expression that the text so far ends with
	text   *string // the literal that the text so far ends with
	dot    bool    // the last token is a dot after last
}

// At returns what is being written at the end of a text.
func At(src string) Context {
	s := &scanner{src: src, frames: []*frame{{}}}
	for s.at < len(s.src) {
		if c, ended := s.token(); ended {
			return c
		}
	}
	if s.dot {
		return s.around(Context{Kind: field, Of: s.last})
	}
	if s.last != nil || s.text != nil {
		return Context{}
	}
	return s.begun("")
}

func (s *scanner) top() *frame { return s.frames[len(s.frames)-1] }

// token reads one token; ended reports whether the text ends in it, and c is what is written there.
func (s *scanner) token() (c Context, ended bool) {
	r, size := utf8.DecodeRuneInString(s.src[s.at:])
	switch {
	case r == '#':
		end := strings.IndexByte(s.src[s.at:], '\n')
		if end < 0 {
			return Context{}, true
		}
		s.at += end
	case r == '\n' && len(s.frames) == 1:
		s.at++
		s.last, s.text, s.dot = nil, nil, false
		*s.top() = frame{}
	case unicode.IsSpace(r) || r == '\\':
		s.at += size
	case r == '"' || r == '\'':
		return s.str(s.at)
	case r == '_' || unicode.IsLetter(r):
		return s.word()
	case unicode.IsDigit(r):
		return s.numeral()
	default:
		s.at += size
		s.punctuation(byte(r))
	}
	return Context{}, false
}

func cursorIsWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func (s *scanner) rest() string {
	end := strings.IndexFunc(s.src[s.at:], func(r rune) bool { return !cursorIsWord(r) })
	if end < 0 {
		return s.src[s.at:]
	}
	return s.src[s.at : s.at+end]
}

func (s *scanner) numeral() (Context, bool) {
	s.at += len(s.rest())
	f := s.top()
	f.tokens++
	f.number = f.tokens == 1
	s.last, s.text, s.dot = nil, nil, false
	return Context{}, s.at == len(s.src)
}

// keywords are the words after which an expression begins.
var keywords = map[string]bool{
	"and": true, "or": true, "not": true, "in": true, "if": true, "else": true, "elif": true, "for": true, "while": true,
	"return": true, "lambda": true, "def": true, "load": false, "pass": true, "break": true, "continue": true,
}

func (s *scanner) word() (Context, bool) {
	word := s.rest()
	start := s.at
	s.at += len(word)
	if s.at < len(s.src) && (s.src[s.at] == '"' || s.src[s.at] == '\'') && strings.Trim(word, "rb") == "" {
		return s.str(start)
	}
	if s.at == len(s.src) {
		if s.dot {
			return s.around(Context{Kind: field, Word: word, Of: s.last}), true
		}
		return s.begun(word), true
	}
	f := s.top()
	f.tokens++
	switch {
	case s.dot && s.last != nil:
		s.last = s.last.with(Step{Name: word, Field: true})
	case keywords[word]:
		s.last = nil
	default:
		s.last = &Path{Name: word}
	}
	s.dot, s.text = false, nil
	return Context{}, false
}

// begun is the context of a name that is being written or may begin here.
func (s *scanner) begun(word string) Context {
	c := s.around(Context{Kind: name, Word: word})
	if f := s.top(); f.open == '(' && f.of != nil && f.key == "" && f.tokens == 0 {
		c.Kind = Argument
	}
	return c
}

// str reads a string literal with its prefix; start is where that begins.
func (s *scanner) str(start int) (Context, bool) {
	q := s.src[s.at : s.at+1]
	if strings.HasPrefix(s.src[s.at:], strings.Repeat(q, 3)) {
		q = strings.Repeat(q, 3)
	}
	s.at += len(q)
	from := s.at
	for s.at < len(s.src) {
		switch {
		case strings.HasPrefix(s.src[s.at:], q):
			s.literal(s.src[from:s.at])
			s.at += len(q)
			return Context{}, false
		case s.src[s.at] == '\\':
			s.at = min(s.at+2, len(s.src))
		case s.src[s.at] == '\n' && len(q) == 1:
			s.literal("") // it has no end: the rest of the text is read as if it had
			return Context{}, false
		default:
			s.at++
		}
	}
	c := s.around(Context{Kind: inText, Word: s.src[min(from, len(s.src)):], Quote: s.src[start:from]})
	switch f := s.top(); {
	case f.tokens > 0 || s.last != nil:
	case f.open == '[' && f.of != nil:
		c.Kind, c.Of = index, f.of
	case f.open == '{' && !f.value:
		c.Kind, c.Keys = key, f.keys
	}
	return c, true
}

// literal notes a complete string literal.
func (s *scanner) literal(text string) {
	f := s.top()
	f.tokens++
	if f.tokens == 1 {
		f.single = &text
		if f.open == '(' && f.arg == 0 && f.key == "" {
			f.tool = text
		}
	} else {
		f.single = nil
	}
	s.last, s.text, s.dot = nil, &text, false
}

// around adds the innermost call around the place to a context.
func (s *scanner) around(c Context) Context {
	for i := len(s.frames) - 1; i > 0; i-- {
		f := s.frames[i]
		switch {
		case f.open == '{':
			c.Depth++
		case f.open == '(' && f.of != nil:
			c.Call, c.Arg, c.Key, c.Tool = f.of, f.arg, f.key, f.tool
			return c
		}
	}
	return c
}

func (s *scanner) punctuation(c byte) {
	f := s.top()
	switch c {
	case '.':
		s.dot = s.last != nil
		return
	case '(', '[', '{':
		f.tokens++
		next := &frame{open: c}
		if c != '{' {
			next.of = s.last
		}
		s.frames = append(s.frames, next)
		s.last, s.text = nil, nil
	case ')', ']', '}':
		s.closed(c)
	case ',':
		f.arg, f.key, f.value, f.tokens, f.single, f.number = f.arg+1, "", false, 0, nil, false
		s.last = nil
	case ':':
		if f.open == '{' && f.single != nil {
			f.keys = append(f.keys, *f.single)
		}
		f.value, f.tokens, f.single = true, 0, nil
		s.last = nil
	case '=':
		if f.open == '(' && s.last != nil && len(s.last.Steps) == 0 && f.tokens == 1 {
			f.key, f.tokens = s.last.Name, 0
		}
		s.last = nil
	default:
		f.tokens++
		s.last = nil
	}
	s.text, s.dot = nil, false
}

// closed ends a bracket, and sets last to the call or index that ends with it.
func (s *scanner) closed(c byte) {
	f := s.top()
	if len(s.frames) == 1 || strings.IndexByte("([{", f.open) != strings.IndexByte(")]}", c) {
		s.last = nil
		return
	}
	s.frames = s.frames[:len(s.frames)-1]
	s.last = nil
	switch {
	case f.of == nil:
	case c == ')':
		s.last = &Path{Name: f.of.String(), Call: true, Tool: f.tool}
	case c == ']' && f.single != nil && f.tokens == 1:
		s.last = f.of.with(Step{Name: *f.single})
	case c == ']' && f.tokens == 1 && f.number:
		s.last = f.of.with(Step{})
	}
	s.text = nil
}
