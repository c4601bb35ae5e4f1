// Package testkit is what tests of many packages need alike: to wait for what happens elsewhere, a text that
// is read while it is written, certificates.
package testkit

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

// waitTime is how long a test waits for what has to come: far longer than it takes on a busy machine.
const waitTime = time.Minute

// Eventually waits until ok, and ends the test if that never comes.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(waitTime)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited %v for %s", waitTime, what)
		}
	}
}

// Buffer is a text that several goroutines may write and read. The zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write appends to the text.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is the text so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
