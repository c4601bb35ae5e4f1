package jsonscan

import "fmt"

// skimValue returns the index after the value at b[i].
func skimValue(b []byte, i int) (int, error) {
	if i >= len(b) {
		return i, syntaxError(b, i)
	}
	var s Scanner
	n, done, err := s.Scan(b[i:])
	if err != nil {
		return i, err
	}
	if !done && !s.Complete() {
		return i, syntaxError(b, len(b))
	}
	return i + n, nil
}

// skimMembers calls f with key, value start and value end of each member of the object at
// the start of b, until f returns false. It returns the index after the object's closing
// brace.
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
// checked for valid JSON. It fails when obj is not an object.
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

// openObject skips the opening brace; the index is that of the first key or of the
// closing brace.
func openObject(b []byte) (int, error) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return i, fmt.Errorf("want an object, have %s", Kind(b[i:]))
	}
	if i = skipSpace(b, i+1); i >= len(b) {
		return i, syntaxError(b, i)
	}
	return i, nil
}

// skimKey reads a key and skips the colon.
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

// nextMember skips from the end of a value to the next key or the closing brace.
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

// Find returns the position of the value of obj's member key, by structure only, or
// start < 0. Of duplicates the last one counts.
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

// FindOpen returns the position of the value of the member key in the first part of an object.
// ok is false when no such value begins in it.
func FindOpen(head []byte, key string) (start int, ok bool) {
	i, err := openObject(head)
	for err == nil && head[i] == '"' {
		k, value, err := skimKey(head, i)
		if err != nil || value >= len(head) {
			break
		}
		if string(k) == key {
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
