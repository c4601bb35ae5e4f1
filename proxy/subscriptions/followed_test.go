package subscriptions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// TestListenersAreBounded: there are so many streams of subscriptions/listen and no more.
func TestListenersAreBounded(t *testing.T) {
	s := New(Options{})
	for range maxListeners {
		s.listeners.add(&listener{})
	}
	var rpc *wire.Error
	if err := s.Listen(t.Context(), []byte("1"), nil, nil, nil); !errors.As(err, &rpc) || rpc.Code != wire.Busy {
		t.Errorf("one more: %v", err)
	}
}

// TestFollowedResourcesAreBounded by their number and by their length.
func TestFollowedResourcesAreBounded(t *testing.T) {
	fill := func(s *Followed, format string) (n int, err error) {
		for ; n < 5000; n++ {
			uri := fmt.Sprintf(format, n)
			if err = s.mayFollow(uri); err != nil {
				return n, err
			}
			s.follow(uri, shared)
		}
		return n, nil
	}
	s := &Followed{}
	if n, err := fill(s, "r:%d"); n != maxFollowed || err == nil {
		t.Errorf("short ones: %d, %v", n, err)
	}
	s.unfollow("r:7")
	if err := s.mayFollow("r:new"); err != nil {
		t.Errorf("after one was given up: %v", err)
	}
	long := "r:" + strings.Repeat("x", 10_000) + "%d"
	if n, err := fill(&Followed{}, long); n != maxFollowedBytes/10_010+1 && n != maxFollowedBytes/10_010 || err == nil {
		t.Errorf("long ones: %d, %v", n, err)
	}
}
