// Package payload holds the results of calls, in pooled memory: whole ones (Response.Result) and
// such that are passed on while they arrive (Stream). What it does for a call that streams, it
// does by the call's clock, which runs only while the backend is waited for.
package payload

import "sync"

// Answers up to Small bytes share small buffers; answers up to Large have one buffer; larger ones
// stream where the transport can.
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

// Grab returns a buffer of at least n bytes; over Large it is a fresh one.
func Grab(n int) *Buffer {
	switch {
	case n <= Small:
		return smallBuffers.Get().(*Buffer)
	case n <= Large:
		return largeBuffers.Get().(*Buffer)
	}
	return &Buffer{make([]byte, n)}
}

// Release gives the buffer back; its bytes must not be used afterwards.
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

// grow is a buffer of at least size bytes with the first n of b in it: b itself, or a larger one,
// at least twice as large, for which b is released.
func (b *Buffer) grow(n, size int) *Buffer {
	if size <= len(b.B) {
		return b
	}
	bigger := Grab(max(size, 2*len(b.B)))
	copy(bigger.B, b.B[:n])
	b.Release()
	return bigger
}
