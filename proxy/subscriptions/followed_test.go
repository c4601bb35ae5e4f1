package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// onOffer is a client on whose stream frames are offered.
type onOffer func(frame []byte)

func (f onOffer) Offer(frame []byte) { f(frame) }
func (f onOffer) Send(frame []byte)  { f(frame) }
func (onOffer) Request([]byte)       {}

// TestNoChangeIsLostAfterTheAcknowledgement: the moment that a client is told that it will be
// notified, it is among those who are, and nothing is sent before.
func TestNoChangeIsLostAfterTheAcknowledgement(t *testing.T) {
	s := New(Options{})
	var frames int
	out := onOffer(func(frame []byte) {
		if frames++; frames > 1 || !strings.Contains(string(frame), wire.Acknowledged) {
			t.Errorf("frame %d is %s", frames, frame)
		}
		if s.listeners.mu.TryLock() {
			s.listeners.mu.Unlock()
			t.Error("a notification could come before the acknowledgement")
		}
		if len(s.listeners.all) != 1 {
			t.Error("the client is told before it is notified of what changes")
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	whole := new(catalog.View)
	if err := s.Listen(ctx, []byte("1"), out, []byte(`{"toolsListChanged":true}`), func() *catalog.View { return whole }); err != nil || frames != 1 {
		t.Errorf("%d frames, %v", frames, err)
	}
}

// TestListenersAreBounded: there are so many streams of subscriptions/listen and no more.
func TestListenersAreBounded(t *testing.T) {
	s := New(Options{})
	for range maxListeners {
		s.listeners.add(&listener{out: onOffer(func([]byte) {})}, nil)
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
