package conn

import "sync"

// This part of the package holds the results of calls in pooled memory: whole ones (Response.Result), and
// ones that are forwarded while they are received (Stream). During a stream the call's clock runs
// only while data of the backend is waited for.

// Responses of up to Small bytes use a small buffer, of up to Large bytes a large one; larger ones
// are streamed where the transport allows it.
const (
	Small = 4 << 10
	Large = 64 << 10
)

// Buffer is a pooled block of memory.
type Buffer struct{ B []byte }

var (
	smallBuffers = sync.Pool{New: func() any { return &Buffer{make([]byte, Small)} }}
	largeBuffers = sync.Pool{New: func() any { return &Buffer{make([]byte, Large)} }}
)

// Grab returns a buffer of at least n bytes, from a pool for up to Large bytes.
func Grab(n int) *Buffer {
	switch {
	case n <= Small:
		return smallBuffers.Get().(*Buffer)
	case n <= Large:
		return largeBuffers.Get().(*Buffer)
	}
	return &Buffer{make([]byte, n)}
}

// Release returns the buffer to its pool; its bytes must not be used afterwards.
func (b *Buffer) Release() {
	switch cap(b.B) {
	case Small:
		b.B = b.B[:Small]
		smallBuffers.Put(b)
	case Large:
		b.B = b.B[:Large]
		largeBuffers.Put(b)
	}
}

// grow returns a buffer of at least size bytes with the first n bytes of b: b, or one at least twice
// as large, and b is released.
func (b *Buffer) grow(n, size int) *Buffer {
	if size <= len(b.B) {
		return b
	}
	bigger := Grab(max(size, 2*len(b.B)))
	copy(bigger.B, b.B[:n])
	b.Release()
	return bigger
}
