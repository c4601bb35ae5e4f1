package document

import (
	"strconv"
	"strings"
)

// KeyPath is the path of a member of a mapping.
func KeyPath(path, key string) string {
	if !plainKey(key) {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func plainKey(key string) bool {
	for i, c := range key {
		switch {
		case c == '_', c == '$', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && (c == '-' || '0' <= c && c <= '9'):
		default:
			return false
		}
	}
	return key != ""
}

// IndexPath is the path of an entry of a list.
func IndexPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Within reports whether a path is whole, or the path of a value inside of it.
func Within(path, whole string) bool {
	rest, ok := strings.CutPrefix(path, whole)
	return ok && (whole == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// kindOf describes the value at a path: "an entry of backends" for backends[2].
func kindOf(path string) string {
	if i := strings.LastIndexByte(path, '['); i >= 0 && strings.HasSuffix(path, "]") {
		return "an entry of " + path[:i]
	}
	return "it"
}
