package subscriptions

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// onOffer is a FrameWriter that calls a function for each frame.
type onOffer func(frame []byte)

func (f onOffer) Offer(frame []byte)            { f(frame) }
func (f onOffer) Send(frame []byte)             { f(frame) }
func (onOffer) Request(context.Context, []byte) {}

// TestNoChangeIsLostAfterTheAcknowledgement: when a client gets the acknowledgement, its stream is registered, and
// nothing is sent before.
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
			t.Error("the client is answered before it is notified of what changes")
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	noted := 0
	view := func() *catalog.View {
		if s.listeners.mu.TryLock() {
			s.listeners.mu.Unlock()
			return new(catalog.View) // for the resources
		}
		if noted++; frames > 0 {
			t.Error("how the lists read is noted after the client is answered")
		}
		return new(catalog.View)
	}
	if err := s.Listen(ctx, []byte("1"), out, []byte(`{"toolsListChanged":true}`), view); err != nil || frames != 1 {
		t.Errorf("%d frames, %v", frames, err)
	}
	if noted != 1 {
		t.Errorf("how the lists read was noted %d times while no change could be announced, want once", noted)
	}
}

// TestListenersAreBounded: the streams of subscriptions/listen are bounded.
func TestListenersAreBounded(t *testing.T) {
	s, whole := New(Options{}), new(catalog.View)
	for range maxListeners {
		s.listeners.add(&listener{out: onOffer(func([]byte) {}), view: func() *catalog.View { return whole }}, nil)
	}
	var rpc *wire.Error
	if err := s.Listen(t.Context(), []byte("1"), nil, nil, nil); !errors.As(err, &rpc) || rpc.Code != wire.Busy {
		t.Errorf("one more: %v", err)
	}
}

// TestFollowedResourcesAreBounded: by number and by length of the URIs.
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

// TestResourceIsKeptWhileItHasSubscribers: of several changes of one resource at once, the one that ends last may have found no
// subscribers although there is one now.
func TestResourceIsKeptWhileItHasSubscribers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8)) // so that threads are interrupted anywhere
	s := New(Options{})
	for range 2000 {
		var changes sync.WaitGroup
		for range 4 {
			changes.Go(func() { s.with("a:b", func(*resource) { runtime.Gosched() }) })
		}
		changes.Go(func() { s.with("a:b", func(r *resource) { r.clients++ }) })
		changes.Wait()
		if r := s.all["a:b"]; r == nil || r.clients != 1 {
			t.Fatalf("the resource is %+v, want one with 1 subscriber", r)
		}
		s.with("a:b", func(r *resource) { r.clients-- })
	}
	if len(s.all) != 0 {
		t.Errorf("%d resources are kept without subscribers", len(s.all))
	}
}
