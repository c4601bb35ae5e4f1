package yamlfile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolserver"
)

// step is one part of a path: a key, or the index of a list.
type step struct {
	key   string
	index int // -1 for a key
}

func (s step) String() string {
	switch {
	case s.index >= 0:
		return fmt.Sprintf("[%d]", s.index)
	case s.key == "" || strings.ContainsAny(s.key, ".[]\" \t\n"):
		quoted, _ := json.Marshal(s.key)
		return "[" + string(quoted) + "]"
	}
	return s.key
}

func pathText(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		part := s.String()
		if b.Len() > 0 && part[0] != '[' {
			b.WriteByte('.')
		}
		b.WriteString(part)
	}
	return b.String()
}

// parsePath parses a path such as server.port, list[2].name or labels["a.b"].x; a
// key in quotes is a JSON string. The empty path is the document itself.
func parsePath(path string) ([]step, error) {
	var steps []step
	rest := path
	for rest != "" {
		s, n, err := parseStep(rest, len(steps) == 0)
		if err != nil {
			return nil, toolserver.Errorf(BadPath, "path %q at %d: %v", path, len(path)-len(rest), err)
		}
		steps, rest = append(steps, s), rest[n:]
	}
	return steps, nil
}

// parseStep returns the first step of s and its length.
func parseStep(s string, first bool) (step, int, error) {
	switch {
	case strings.HasPrefix(s, `["`):
		return parseQuoted(s)
	case s[0] == '[':
		end := strings.IndexByte(s, ']')
		index, err := strconv.ParseUint(s[1:max(end, 1)], 10, 31)
		if err != nil {
			return step{}, 0, fmt.Errorf(`want an index such as [2] or a key such as ["a.b"]`)
		}
		return step{index: int(index)}, end + 1, nil
	}
	n := 0
	if !first {
		if s[0] != '.' {
			return step{}, 0, fmt.Errorf("want . or [ after ]")
		}
		n = 1
	}
	key := s[n:]
	if i := strings.IndexAny(key, ".["); i >= 0 {
		key = key[:i]
	}
	if key == "" || strings.ContainsAny(key, `]"`) {
		return step{}, 0, fmt.Errorf(`want a key; write one with special characters as ["a.b"]`)
	}
	return step{key: key, index: -1}, n + len(key), nil
}

func parseQuoted(s string) (step, int, error) {
	d := json.NewDecoder(strings.NewReader(s[1:]))
	var key string
	if err := d.Decode(&key); err != nil {
		return step{}, 0, fmt.Errorf("key in quotes: %v", err)
	}
	end := 1 + int(d.InputOffset())
	if end >= len(s) || s[end] != ']' {
		return step{}, 0, fmt.Errorf("want ] after the key in quotes")
	}
	return step{key: key, index: -1}, end + 1, nil
}
