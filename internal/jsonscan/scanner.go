package jsonscan

import "fmt"

// Scanner finds the end of one JSON value that may arrive in pieces. It looks at
// structure only, strings and brackets, which is several times faster than checking the
// grammar and enough to know where a peer's value ends.
type Scanner struct {
	depth                     int
	inString, escaped, scalar bool
}

// Scan takes the next piece, which at first must start with the value's first byte. It
// returns how many of its bytes belong to the value and whether the value ended. A
// number or word ends with the byte after it, or with the input.
func (s *Scanner) Scan(p []byte) (n int, done bool, err error) {
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
func (s *Scanner) skipBlocks(p []byte) (n int, done bool, err error) {
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
func (s *Scanner) start(c byte) error {
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
func (s *Scanner) skipMembers(p []byte, i int) (n int, done bool, err error) {
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
func (s *Scanner) Complete() bool { return s.scalar }

// skipText goes on inside a string and returns the index past its closing quote, or
// the end of p.
func (s *Scanner) skipText(p []byte, i int) int {
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
