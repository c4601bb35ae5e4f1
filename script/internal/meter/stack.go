package meter

import "go.starlark.net/starlark"

// stack is a stack of values that grows without moving them.
type stack struct {
	chunks [][]starlark.Value // of chunk values; the first may be shorter
	n      int
}

const chunk = 1024

// full reports whether the next push adds a chunk.
func (s *stack) full() bool { return s.n>>10 == len(s.chunks) }

func (s *stack) push(v starlark.Value) {
	i := s.n >> 10
	switch {
	case i == 0 && len(s.chunks) > 0:
		s.chunks[0] = append(s.chunks[0][:s.n], v)
		s.n++
		return
	case i == 0:
		s.chunks = append(s.chunks, make([]starlark.Value, 1, 32))
	case s.full():
		s.chunks = append(s.chunks, make([]starlark.Value, chunk))
	}
	s.chunks[i][s.n&(chunk-1)] = v
	s.n++
}

func (s *stack) at(i int) *starlark.Value { return &s.chunks[i>>10][i&(chunk-1)] }

// pop removes the values from base on and returns them.
func (s *stack) pop(base int) []starlark.Value {
	values := make([]starlark.Value, s.n-base)
	for done := 0; done < len(values); {
		i := base + done
		done += copy(values[done:], s.chunks[i>>10][i&(chunk-1):])
	}
	s.n = base
	return values
}
