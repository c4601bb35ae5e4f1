// Package testkit has helpers for tests of many packages: waiting for a condition, a concurrent buffer,
// certificates.
package testkit

import (
	"bytes"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
)

// waitTime bounds the wait of Eventually: far longer than needed on a busy machine.
const waitTime = time.Minute

// Eventually waits until ok returns true, and fails the test after a minute.
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

// Listen listens on a loopback port that can be closed and opened again: no other test listens on its address, so that
// none takes the port meanwhile.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		host = "127.0.0.2" // other systems have only 127.0.0.1 by default
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// NobodyListens is an address that refuses connections: its port is below the range of ephemeral ports.
const NobodyListens = "127.0.0.1:1"

// Buffer is a bytes.Buffer that is safe for concurrent use. The zero value is empty.
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

// String returns the text so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
