package routing

import (
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/edge/ids"
)

// TestOwnersAreBounded: who has adopted sessions is known of so many and no more.
func TestOwnersAreBounded(t *testing.T) {
	s := &Set{owners: map[string]string{}}
	for i := range maxOwners + 10 {
		s.remember(&ids.Session{ID: fmt.Sprint(i), Owner: "a"}, "b")
	}
	if n := len(s.owners); n > maxOwners {
		t.Errorf("the owners of %d sessions are known, want at most %d", n, maxOwners)
	}
	if last := fmt.Sprint(maxOwners + 9); s.owners[last] != "b" {
		t.Errorf("the owner of the last session is not known")
	}
	s.remember(&ids.Session{ID: "own", Owner: "b"}, "b")
	if _, ok := s.owners["own"]; ok {
		t.Error("an owner that the id names is kept, too")
	}
}
