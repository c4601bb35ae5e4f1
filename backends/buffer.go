package backends

import "sync"

// Answers up to smallAnswer share small buffers; answers up to largeAnswer have one
// buffer; larger ones stream where the transport can.
const (
	smallAnswer = 4 << 10
	largeAnswer = 64 << 10
)

// buffer is a pooled block of memory.
type buffer struct{ b []byte }

var (
	smallBuffers = sync.Pool{New: func() any { return &buffer{make([]byte, smallAnswer)} }}
	largeBuffers = sync.Pool{New: func() any { return &buffer{make([]byte, largeAnswer)} }}
)

// grab returns a buffer of at least n bytes; over largeAnswer it is a fresh one.
func grab(n int) *buffer {
	switch {
	case n <= smallAnswer:
		return smallBuffers.Get().(*buffer)
	case n <= largeAnswer:
		return largeBuffers.Get().(*buffer)
	}
	return &buffer{make([]byte, n)}
}

// release gives the buffer back; its bytes must not be used afterwards.
func (b *buffer) release() {
	switch cap(b.b) {
	case smallAnswer:
		b.b = b.b[:smallAnswer]
		smallBuffers.Put(b)
	case largeAnswer:
		b.b = b.b[:largeAnswer]
		largeBuffers.Put(b)
	}
}
