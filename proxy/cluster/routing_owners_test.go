package cluster

import (
	"fmt"
	"testing"
	"time"
)

// TestOwnersAreBounded: the cached owners of adopted sessions are bounded.
func TestOwnersAreBounded(t *testing.T) {
	s := &Set{owners: map[string]string{}}
	for i := range maxOwners + 10 {
		s.remember(fmt.Sprint(i), "b")
	}
	if n := len(s.owners); n > maxOwners {
		t.Errorf("the owners of %d sessions are known, want at most %d", n, maxOwners)
	}
	if last := fmt.Sprint(maxOwners + 9); s.owners[last] != "b" {
		t.Errorf("the owner of the last session is not known")
	}
}

func TestEndsThatAreNotNotedAreBounded(t *testing.T) {
	var e ended
	for i := range maxEnded + 10 {
		if kept := e.add(fmt.Sprint(i), time.Now()); kept != (i < maxEnded) {
			t.Fatalf("end %d is kept: %v", i, kept)
		}
	}
	if n := len(e.all); n != maxEnded {
		t.Errorf("%d ends are kept, want %d", n, maxEnded)
	}
}
