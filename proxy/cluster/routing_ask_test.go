package cluster

import (
	"errors"
	"testing"
)

func TestAnswersOfReplicasAreBounded(t *testing.T) {
	r := &reply{}
	part := make([]byte, maxStatus/4)
	for range 4 {
		if _, err := r.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Write([]byte("x")); !errors.Is(err, errLong) || r.text.Len() != maxStatus {
		t.Errorf("one byte more: %v, and %d are held", err, r.text.Len())
	}
}
