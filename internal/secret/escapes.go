package secret

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A program that repeats a secret may escape it: in URLs / as %2f or not, in JSON as \/ or
// \u0041, and one inside of the other. So texts are searched in their unescaped form as well,
// and a secret found there is hidden at its position in the original.

const (
	// maxEscaped bounds the layers of escapes that are resolved.
	maxEscaped = 3
	// longestEscape is the length of the longest escape of a byte: \u0041.
	longestEscape = 6
)

// unescape removes one layer of escapes from a text. It also returns the position of each byte,
// and of the end, in s or, by origin, in the text that s was unescaped from; nil where nothing is
// escaped.
func unescape(s string, origin []int) (string, []int) {
	i := nextEscape(s, 0)
	if i < 0 {
		return "", nil
	}
	at := func(i int) int {
		if origin == nil {
			return i
		}
		return origin[i]
	}
	out, from := make([]byte, 0, len(s)), make([]int, 0, len(s)+1)
	plain := func(i, end int) {
		for ; i < end; i++ {
			out, from = append(out, s[i]), append(from, at(i))
		}
	}
	for done := 0; ; i = nextEscape(s, done) {
		if i < 0 {
			plain(done, len(s))
			return string(out), append(from, at(len(s)))
		}
		plain(done, i)
		text, n := escape(s[i:])
		out = append(out, text...)
		for range text {
			from = append(from, at(i))
		}
		done = i + n
	}
}

// nextEscape returns the position of the next escape, or -1.
func nextEscape(s string, i int) int {
	for i < len(s) {
		n := strings.IndexAny(s[i:], `%\`)
		if n < 0 {
			return -1
		}
		if _, length := escape(s[i+n:]); length > 0 {
			return i + n
		}
		i += n + 1
	}
	return -1
}

// escape decodes the escape at the start of s, and returns its length, 0 for none.
func escape(s string) (text []byte, n int) {
	switch {
	case len(s) < 2:
		return nil, 0
	case s[0] == '%':
		return hexByte(s, 1)
	case s[1] == 'x':
		return hexByte(s, 2)
	case s[1] == 'u' && len(s) >= longestEscape:
		r, err := strconv.ParseUint(s[2:longestEscape], 16, 16)
		if err != nil {
			return nil, 0
		}
		return utf8.AppendRune(nil, rune(r)), longestEscape
	case strings.IndexByte(`/"'\`, s[1]) >= 0:
		return []byte{s[1]}, 2
	}
	return nil, 0
}

// hexByte reads the two digits at i.
func hexByte(s string, i int) ([]byte, int) {
	if len(s) < i+2 {
		return nil, 0
	}
	b, err := strconv.ParseUint(s[i:i+2], 16, 8)
	if err != nil {
		return nil, 0
	}
	return []byte{byte(b)}, i + 2
}
