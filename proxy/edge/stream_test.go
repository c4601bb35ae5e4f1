package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// streamRead pumps a stream until it ends or breaks, and returns what was written.
func streamRead(s *stream, after int) (string, error) {
	w := httptest.NewRecorder()
	err := s.Pump(w, after, true, nil)
	return w.Body.String(), err
}

func answering(set *set, id string) *stream { return set.New(json.RawMessage(id), nil) }

// finish responds with a result of n bytes, as it arrives.
func finish(ctx context.Context, s *stream, n int) {
	if err := s.FinishFrom(ctx, s.request, strings.NewReader(`{"text":"`+strings.Repeat("x", n)+`"}`)); err != nil {
		s.Fail(err)
	}
}

func testSet() (*set, *pool) {
	all := &pool{}
	return newSet(all, ""), all
}

// TestWritersWaitForTheReader: a writer may fill the window, then it blocks until the reader takes something; nothing
// is lost.
func TestWritersWaitForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, all := testSet()
		s := answering(set, "7")
		note := strings.Repeat("n", 10_000)
		written := 0
		go func() {
			for i := range 1000 {
				s.Send(t.Context(), fmt.Appendf(nil, `{"n":%d,"x":%q}`, i, note))
				written++
			}
			finish(t.Context(), s, 3<<20)
			set.End(s)
		}()
		synctest.Wait()
		if written < 100 || written > 110 || all.held.Load() > streamBytes {
			t.Errorf("%d notifications were taken, %d bytes, before anybody read; want a window of %d bytes", written, all.held.Load(), streamBytes)
		}
		body, err := streamRead(s, -1)
		for i := range 1000 {
			if !strings.Contains(body, fmt.Sprintf(`{"n":%d,`, i)) {
				t.Fatalf("notification %d is missing", i)
			}
		}
		if err != nil || !strings.Contains(body, `"id":7,"result":{"text":"`+strings.Repeat("x", 3<<20)+`"}}`) {
			t.Errorf("the result is not whole: %d bytes, %v", len(body), err)
		}
		set.Close()
	})
}

// TestUnreadStreamsBreak: a call whose stream is not read is cancelled, and a client that resumes gets an error rather
// than a result after a gap.
func TestUnreadStreamsBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, all := testSet()
		s := answering(set, "7")
		ctx, cancel := context.WithCancel(t.Context())
		s.cancel = cancel
		began := time.Now()
		finish(ctx, s, 3<<20)
		set.End(s)
		if took := time.Since(began); took != slowReader || ctx.Err() == nil {
			t.Errorf("given up after %v, cancelled: %v; want %v", took, ctx.Err(), slowReader)
		}
		if all.broken.Load() != 1 || all.held.Load() > 1000 {
			t.Errorf("%d streams are counted as broken, %d bytes are held", all.broken.Load(), all.held.Load())
		}
		body, _ := streamRead(s, 0)
		if !strings.Contains(body, "it was not read for 30s") || strings.Contains(body, "xxx") {
			t.Errorf("who came back got %.200s", body)
		}
		set.Close()
	})
}

// TestResumeInTheMiddleOfAResult: a client that loses its connection in the middle of a large result can resume.
func TestResumeInTheMiddleOfAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, _ := testSet()
		s := answering(set, "7")
		go func() {
			s.Send(t.Context(), []byte(`{"n":0}`))
			finish(t.Context(), s, 5<<20)
			set.End(s)
		}()
		synctest.Wait()
		turn, _ := s.attach(-1)
		for range 30 {
			s.take(turn)
			synctest.Wait()
		}
		s.detach(turn, false)
		time.Sleep(20 * time.Second)
		body, err := streamRead(s, 1)
		if err != nil || strings.Contains(body, `{"n":0}`) || !strings.Contains(body, strings.Repeat("x", 5<<20)+`"}}`) {
			t.Errorf("got %d bytes, %v; want the whole result and nothing twice", len(body), err)
		}
		set.Close()
	})
}

// TestResumeBehindWhatIsGone: a response that was dropped from the budget is an error for a client that resumes it.
func TestResumeBehindWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, all := testSet()
		all.held.Store(replayTotal)
		s := answering(set, "7")
		go func() {
			finish(t.Context(), s, 5<<20)
			set.End(s)
		}()
		synctest.Wait()
		turn, _ := s.attach(-1)
		for range 30 {
			s.take(turn)
			synctest.Wait()
		}
		s.detach(turn, false)
		body, err := streamRead(s, 0)
		if err != nil || !strings.Contains(body, `"id":7,"error"`) || !strings.Contains(body, "no longer kept") {
			t.Errorf("got %.300s, %v", body, err)
		}
		set.Close()
		if held := all.held.Load(); held != replayTotal {
			t.Errorf("%d bytes are booked in the end", held-replayTotal)
		}
	})
}

// TestAbandonedStreamsMakeRoom: streams that no client resumes do not prevent others, of the same session or another
// one, from being resumed.
func TestAbandonedStreamsMakeRoom(t *testing.T) {
	t.Run("of one session", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { abandon(t, false) }) })
	t.Run("of many sessions", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { abandon(t, true) }) })
}

// abandon leaves responses in the middle, then resumes another one.
func abandon(t *testing.T, others bool) {
	set, all := testSet()
	defer func() { set.Close() }()
	leave := func(size int) *stream {
		s := answering(set, "7")
		go func() {
			finish(t.Context(), s, size)
			set.End(s)
		}()
		synctest.Wait()
		turn, _ := s.attach(-1)
		for range 30 {
			s.take(turn)
			synctest.Wait()
		}
		s.detach(turn, false)
		return s
	}
	for range 24 {
		leave(5 << 19)
		if others {
			left := set
			defer left.Close()
			set = newSet(all, "")
		}
	}
	time.Sleep(time.Minute)
	body, err := streamRead(leave(5<<20), 0)
	if err != nil || !strings.Contains(body, strings.Repeat("x", 5<<20)+`"}}`) {
		t.Errorf("got %d bytes, %.200s, %v; want the whole result", len(body), body, err)
	}
	if held := all.held.Load(); held > replayTotal+streamBytes {
		t.Errorf("%d bytes are held", held)
	}
}

// TestWhatWasDeliveredGoes: the end of a stream is kept for seconds if it was read, for minutes if not, and not at all
// beyond the budgets.
func TestWhatWasDeliveredGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, all := testSet()
		defer set.Close()
		read7, unread8 := answering(set, "7"), answering(set, "8")
		var answered sync.WaitGroup
		answered.Go(func() {
			finish(t.Context(), read7, 5<<20)
			set.End(read7)
		})
		streamRead(read7, -1)
		answered.Wait() // the stream has ended before it can have been delivered
		set.Delivered(read7)
		finish(t.Context(), unread8, 100)
		set.End(unread8)
		if held := all.held.Load(); held < 5<<20 {
			t.Errorf("%d bytes are kept, want the result for a client that lost it", held)
		}
		time.Sleep(deliveredFor)
		synctest.Wait()
		if held := all.held.Load(); held > 1000 || set.Find(read7.id) != nil {
			t.Errorf("%d bytes are kept %v after they were delivered", held, deliveredFor)
		}
		if set.Find(unread8.id) != unread8 {
			t.Error("the answer that was not delivered is gone")
		}
		time.Sleep(undeliveredFor)
		synctest.Wait()
		if held := all.held.Load(); held != 0 || set.Find(unread8.id) != nil || all.evicted.Load() != 1 {
			t.Errorf("%d bytes are kept after %v, %d counted as evicted", held, undeliveredFor, all.evicted.Load())
		}
	})
}

// TestEndedStreamsAreBounded: the memory of ended streams is bounded for any number of sessions, and the oldest are
// dropped first.
func TestEndedStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &pool{}
		var sessions []*set
		for range 200 {
			s := newSet(all, "")
			sessions = append(sessions, s)
			for range keptStreams + 2 {
				st := answering(s, "1")
				finish(t.Context(), st, (64<<10)-100)
				s.End(st)
			}
			if n := len(s.streams); n > keptStreams {
				t.Fatalf("a session keeps %d ended streams", n)
			}
		}
		if held := all.held.Load(); held > streamsTotal+(64<<10) {
			t.Errorf("all hold %d bytes, the bound is %d", held, streamsTotal)
		}
		if len(sessions[0].streams) != 0 || len(sessions[199].streams) != keptStreams {
			t.Errorf("the oldest session has %d streams, the newest %d", len(sessions[0].streams), len(sessions[199].streams))
		}
		for _, s := range sessions {
			s.Close()
		}
		if held := all.held.Load(); held != 0 {
			t.Errorf("%d bytes are booked in the end", held)
		}
	})
}

// TestOfferKeepsWhatIsNewest: a standalone stream without a reader is bounded, and never drops a request to the client.
func TestOfferKeepsWhatIsNewest(t *testing.T) {
	all := &pool{}
	s := newStream(ownID, &budget{pool: all})
	s.OfferRequest(t.Context(), []byte(`{"n":"asked"}`))
	frame := strings.Repeat("x", streamBytes/8)
	for i := range 20 {
		s.Offer(fmt.Appendf(nil, `{"n":%d,"x":%q}`, i, frame))
	}
	if s.size > streamBytes+1000 || int64(s.size) != all.held.Load() {
		t.Errorf("the stream holds %d bytes, booked are %d, the limit is %d", s.size, all.held.Load(), streamBytes)
	}
	if all.dropped.Load() != 13 {
		t.Errorf("%d notifications are counted as dropped, want 13", all.dropped.Load())
	}
	s.Close()
	w := httptest.NewRecorder()
	if err := s.Pump(w, -1, true, t.Context().Done()); err != nil {
		t.Fatal(err)
	}
	body := w.Body.String()
	if !strings.Contains(body, `{"n":19,`) || strings.Contains(body, `{"n":0,`) || !strings.Contains(body, "id: g/20\n") || !strings.Contains(body, "asked") {
		t.Errorf("the reader got %d bytes: want the newest frames, the request, and not the oldest", len(body))
	}
}

// TestStreamIsTakenOver: a client that reconnects continues where it was, and the previous connection ends.
func TestStreamIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream("p1", nil)
		s.Send(t.Context(), []byte(`{"n":0}`))
		first, second := httptest.NewRecorder(), httptest.NewRecorder()
		ended := make(chan error)
		go func() { ended <- s.Pump(first, -1, true, nil) }()
		synctest.Wait()
		go func() { ended <- s.Pump(second, 0, true, nil) }()
		if err := <-ended; err != errTakenOver {
			t.Errorf("the first connection ended with %v", err)
		}
		s.Send(t.Context(), []byte(`{"n":1}`))
		s.Close()
		if err := <-ended; err != nil {
			t.Errorf("the second connection ended with %v", err)
		}
		if got := first.Body.String(); !strings.Contains(got, `{"n":0}`) || strings.Contains(got, `{"n":1}`) {
			t.Errorf("the first connection got %q", got)
		}
		if got := second.Body.String(); !strings.Contains(got, `{"n":0}`) || !strings.Contains(got, `{"n":1}`) {
			t.Errorf("the second connection got %q", got)
		}
	})
}

// TestSendingAway: the client is told when to reconnect, and the stream is kept.
func TestSendingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream("p1", nil)
		w := httptest.NewRecorder()
		ended := make(chan error)
		go func() { ended <- s.Pump(w, -1, true, nil) }()
		synctest.Wait()
		s.SendAway(1500 * time.Millisecond)
		if err := <-ended; err != errTakenOver {
			t.Errorf("the connection ended with %v", err)
		}
		if got := w.Body.String(); got != "id: p1/-1\ndata: \n\nretry: 1500\n\n" {
			t.Errorf("the client got %q", got)
		}
	})
}
