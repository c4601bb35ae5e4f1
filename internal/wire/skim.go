package wire

import (
	"bytes"
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
		if s.inString {
			n = s.skipText(p, n)
			if !s.inString && s.depth == 0 {
				return n, true, nil
			}
			continue
		}
		c := p[n]
		switch {
		case s.scalar:
			if endsScalar(c) {
				return n, true, nil
			}
		case c == '"':
			s.inString = true
		case c == '{' || c == '[':
			if s.depth++; s.depth > MaxDepth {
				return n, false, fmt.Errorf("nested deeper than %d", MaxDepth)
			}
		case c == '}' || c == ']':
			if s.depth--; s.depth <= 0 {
				if s.depth < 0 {
					return n, false, fmt.Errorf("unexpected %q", c)
				}
				return n + 1, true, nil
			}
		case s.depth == 0:
			if endsScalar(c) {
				return n, false, fmt.Errorf("unexpected %q", c)
			}
			s.scalar = true
		}
		n++
	}
	return n, false, nil
}

// Complete reports whether the value may end where the input ends.
func (s *ValueScanner) Complete() bool { return s.scalar }

// skipText goes on inside a string and returns the index past its closing quote, or
// the end of p.
func (s *ValueScanner) skipText(p []byte, i int) int {
	if s.escaped {
		s.escaped = false
		i++
	}
	for {
		if i >= len(p) {
			return len(p)
		}
		j := bytes.IndexByte(p[i:], '"')
		if j < 0 {
			s.escaped = oddBackslashes(p[i:])
			return len(p)
		}
		closing := !oddBackslashes(p[i : i+j])
		i += j + 1
		if closing {
			s.inString = false
			return i
		}
	}
}

func oddBackslashes(p []byte) bool {
	n := 0
	for n < len(p) && p[len(p)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
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
// at the start of b, until f returns false. end is -1 when b ends inside that value.
// It returns the index past the object's closing brace.
func skimMembers(b []byte, f func(key []byte, start, end int) bool) (int, error) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return i, fmt.Errorf("want an object, have %s", describe(b[i:]))
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return i, syntaxError(b, i)
		}
		keyEnd, err := skimValue(b, i)
		if err != nil {
			return i, err
		}
		key := unescape(b[i:keyEnd])
		if i = skipSpace(b, keyEnd); i >= len(b) || b[i] != ':' {
			return i, syntaxError(b, i)
		}
		start := skipSpace(b, i+1)
		end, err := skimValue(b, start)
		if err != nil {
			f(key, start, -1)
			return i, err
		}
		if !f(key, start, end) {
			return end, nil
		}
		switch i = skipSpace(b, end); {
		case i >= len(b):
			return i, syntaxError(b, i)
		case b[i] == '}':
			return i + 1, nil
		case b[i] != ',':
			return i, syntaxError(b, i)
		}
		i = skipSpace(b, i+1)
	}
}

// Find returns where the value of obj's member key stands, by structure only, or
// start < 0. Of duplicates the last wins.
func Find(obj []byte, key string) (start, end int) {
	start, end = -1, -1
	skimMembers(obj, func(k []byte, s, e int) bool {
		if string(k) == key && e >= 0 {
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
	end, err := skimMembers(frame, func(key []byte, start, end int) bool {
		if end < 0 {
			return false
		}
		v := frame[start:end:end]
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
		return true
	})
	switch {
	case err != nil:
		return m, &Error{Code: ParseError, Message: "parse error: " + err.Error()}
	case skipSpace(frame, end) != len(frame):
		return m, &Error{Code: ParseError, Message: "parse error: " + syntaxError(frame, skipSpace(frame, end)).Error()}
	case twice:
		return m, Invalid("a member appears twice")
	}
	return m, m.check(version, hasID)
}

// SkimResult finds where the result's value begins in the first part of a response
// frame that is not all there yet. ok is false when the result does not begin in it,
// or when all of it is in head.
func SkimResult(head []byte) (start int, ok bool) {
	skimMembers(head, func(key []byte, s, end int) bool {
		if string(key) == "result" && end < 0 && s < len(head) {
			start, ok = s, true
		}
		return true
	})
	return start, ok
}
