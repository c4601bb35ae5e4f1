package jsonscan

import "fmt"

// Scanner finds the end of one JSON value that may be received in pieces. It tracks strings
// and brackets only, which is several times faster than checking the grammar.
type Scanner struct {
	depth                     int
	inString, escaped, scalar bool
}

// Scan processes the next piece; the first one must start with the value's first byte. It
// returns how many of its bytes belong to the value and whether the value has ended. A
// number or word ends at the byte after it, or with the input.
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

// skipBlocks processes all whole blocks of p, inside a container.
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

// start processes the first byte of the value.
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

// brackets is 1 for opening brackets, -1 for closing ones, and 2 for quotes.
var brackets = [256]int8{'{': 1, '[': 1, '}': -1, ']': -1, '"': 2}

// skipMembers processes p inside a container, outside of strings, and returns the index
// after the next quote, after the value's end, or the end of p.
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

// Complete reports whether the value is complete if the input ends here.
func (s *Scanner) Complete() bool { return s.scalar }

// skipText processes p inside a string and returns the index after its closing quote,
// or the end of p.
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
