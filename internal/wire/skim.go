package wire

import (
	"encoding/json"
	"fmt"
)

// ValueScanner finds the end of one JSON value that may arrive in pieces. It looks at
// structure only, strings and brackets, which is several times faster than checking the
// grammar and enough to know where a peer's value ends.
type ValueScanner struct {
	depth                     int
	inString, escaped, scalar bool
}

// Scan takes the next piece, which at first must start with the value's first byte. It
// returns how many of its bytes belong to the value and whether the value ended. A
// number or word ends with the byte after it, or with the input.
func (s *ValueScanner) Scan(p []byte) (n int, done bool, err error) {
	for n < len(p) {
		switch {
		case s.depth > 0 && len(p)-n >= blockSize:
			m, done, err := s.skipBlocks(p[n:])
			if n += m; done || err != nil {
				return n, done, err
			}
		case s.inString:
			if n = s.skipText(p, n); !s.inString && s.depth == 0 {
				return n, true, nil
			}
		case s.depth > 0:
			if n, done, err = s.skipMembers(p, n); done || err != nil {
				return n, done, err
			}
		case s.scalar && endsScalar(p[n]):
			return n, true, nil
		case s.scalar:
			n++
		default:
			if err := s.start(p[n]); err != nil {
				return n, false, err
			}
			n++
		}
	}
	return n, false, nil
}

// skipBlocks goes on inside a container by all whole blocks of p.
func (s *ValueScanner) skipBlocks(p []byte) (n int, done bool, err error) {
	b := blocks{depth: s.depth}
	if s.inString {
		b.inString = ^uint64(0)
	}
	if s.escaped {
		b.escaped = 1
	}
	for !done && err == nil && len(p)-n >= blockSize {
		n += b.pass(p[n:])
		if len(p)-n >= blockSize {
			var m int
			m, done, err = b.count()
			n += m
		}
	}
	s.depth, s.inString, s.escaped = b.depth, b.inString != 0 && !done, b.escaped != 0 && !done
	return n, done, err
}

// start takes the first byte of the value.
func (s *ValueScanner) start(c byte) error {
	switch {
	case c == '"':
		s.inString = true
	case c == '{' || c == '[':
		s.depth = 1
	case c == '}' || endsScalar(c):
		return fmt.Errorf("unexpected %q", c)
	default:
		s.scalar = true
	}
	return nil
}

// brackets is 1 for what opens a container, -1 for what closes one; quotes are 2.
var brackets = [256]int8{'{': 1, '[': 1, '}': -1, ']': -1, '"': 2}

// skipMembers goes on inside a container, outside of strings, and returns the index past
// the next quote, past the value's end, or the end of p.
func (s *ValueScanner) skipMembers(p []byte, i int) (n int, done bool, err error) {
	for ; i < len(p); i++ {
		switch brackets[p[i]] {
		case 2:
			s.inString = true
			return i + 1, false, nil
		case 1:
			if s.depth++; s.depth > MaxDepth {
				return i, false, fmt.Errorf("nested deeper than %d", MaxDepth)
			}
		case -1:
			if s.depth--; s.depth == 0 {
				return i + 1, true, nil
			}
		}
	}
	return i, false, nil
}

// Complete reports whether the value may end where the input ends.
func (s *ValueScanner) Complete() bool { return s.scalar }

// skipText goes on inside a string and returns the index past its closing quote, or
// the end of p.
func (s *ValueScanner) skipText(p []byte, i int) int {
	for ; i < len(p); i++ {
		switch {
		case s.escaped:
			s.escaped = false
		case p[i] == '\\':
			s.escaped = true
		case p[i] == '"':
			s.inString = false
			return i + 1
		}
	}
	return i
}

func endsScalar(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ':' || c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

// skimValue returns the index past the value at b[i].
func skimValue(b []byte, i int) (int, error) {
	if i >= len(b) {
		return i, syntaxError(b, i)
	}
	var s ValueScanner
	n, done, err := s.Scan(b[i:])
	if err != nil {
		return i, err
	}
	if !done && !s.Complete() {
		return i, syntaxError(b, len(b))
	}
	return i + n, nil
}

// skimMembers calls f with key, value start and value end of each member of the object
// at the start of b, until f returns false. It returns the index past the object's
// closing brace.
func skimMembers(b []byte, f func(key []byte, start, end int) bool) (int, error) {
	i, err := openObject(b)
	for err == nil && b[i] != '}' {
		var key []byte
		var start, end int
		if key, start, err = skimKey(b, i); err != nil {
			break
		}
		if end, err = skimValue(b, start); err != nil {
			break
		}
		if !f(key, start, end) {
			return end, nil
		}
		i, err = nextMember(b, end)
	}
	return i + 1, err
}

// SkimObject calls f for each member of obj in order, by structure only: values are not
// checked for being JSON. An error says why obj is no object.
func SkimObject(obj []byte, f func(key, value []byte)) error {
	end, err := skimMembers(obj, func(key []byte, start, end int) bool {
		f(key, obj[start:end:end])
		return true
	})
	if rest := skipSpace(obj, end); err == nil && rest != len(obj) {
		err = syntaxError(obj, rest)
	}
	return err
}

// openObject passes the opening brace; the index is that of the first key or of the
// closing brace.
func openObject(b []byte) (int, error) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return i, fmt.Errorf("want an object, have %s", describe(b[i:]))
	}
	if i = skipSpace(b, i+1); i >= len(b) {
		return i, syntaxError(b, i)
	}
	return i, nil
}

// skimKey reads a key and passes the colon.
func skimKey(b []byte, i int) (key []byte, value int, err error) {
	if b[i] != '"' {
		return nil, i, syntaxError(b, i)
	}
	end, err := skimValue(b, i)
	if err != nil {
		return nil, i, err
	}
	colon := skipSpace(b, end)
	if colon >= len(b) || b[colon] != ':' {
		return nil, colon, syntaxError(b, colon)
	}
	return unescape(b[i:end]), skipSpace(b, colon+1), nil
}

// nextMember goes from the end of a value to the next key or the closing brace.
func nextMember(b []byte, i int) (int, error) {
	if i = skipSpace(b, i); i < len(b) && b[i] == '}' {
		return i, nil
	}
	if i >= len(b) || b[i] != ',' {
		return i, syntaxError(b, i)
	}
	if i = skipSpace(b, i+1); i >= len(b) || b[i] != '"' {
		return i, syntaxError(b, i)
	}
	return i, nil
}

// Find returns where the value of obj's member key stands, by structure only, or
// start < 0. Of duplicates the last wins.
func Find(obj []byte, key string) (start, end int) {
	start, end = -1, -1
	skimMembers(obj, func(k []byte, s, e int) bool {
		if string(k) == key {
			start, end = s, e
		}
		return true
	})
	return start, end
}

// Skim cuts a frame like Parse, but by structure only: values that no decision hangs
// on are not checked for being JSON. It is for a peer's answers, whose results are
// passed on as they are. A null error beside a result, which some servers send, counts
// as absent.
func Skim(frame []byte) (Message, error) {
	var m Message
	var version, hasID, twice bool
	take := func(to *json.RawMessage, v []byte) {
		twice = twice || *to != nil
		*to = v
	}
	err := SkimObject(frame, func(key, v []byte) {
		switch envelopeField(key) {
		case 0:
			version = string(v) == `"2.0"`
		case 1:
			if hasID = true; string(v) != "null" {
				take(&m.ID, v)
			}
		case 2:
			m.Method = Text(v)
		case 3:
			take(&m.Params, v)
		case 4:
			take(&m.Result, v)
		case 5:
			if string(v) != "null" {
				take(&m.Error, v)
			}
		}
	})
	switch {
	case err != nil:
		return m, &Error{Code: ParseError, Message: "parse error: " + err.Error()}
	case twice:
		return m, Invalid("a member appears twice")
	}
	return m, m.check(version, hasID)
}

// SkimResult finds where the result begins in head, the first part of a response frame
// that goes on behind it. ok is false when no result begins there.
func SkimResult(head []byte) (start int, ok bool) {
	i, err := openObject(head)
	for err == nil && head[i] == '"' {
		key, value, err := skimKey(head, i)
		if err != nil || value >= len(head) {
			break
		}
		if string(key) == "result" {
			return value, true
		}
		end, err := skimValue(head, value)
		if err != nil {
			break
		}
		if i, err = nextMember(head, end); err != nil {
			break
		}
	}
	return 0, false
}
