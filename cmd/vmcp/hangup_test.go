//go:build unix

package main

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHangupWhileStarting: a hangup that comes before serve follows its configuration does not end
// the process. Here it would end the test.
func TestHangupWhileStarting(t *testing.T) {
	if code := run([]string{"serve", "--config", "nowhere.yaml"}, strings.NewReader(""), io.Discard, io.Discard); code != exitFound {
		t.Fatalf("exit code %d, want %d", code, exitFound)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-earlyHangups:
	case <-time.After(time.Minute):
		t.Error("the hangup was not taken")
	}
}
