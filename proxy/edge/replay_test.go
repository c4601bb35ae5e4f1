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

	"github.com/vmcp-dev/vmcp/backends"
)

// read pumps a stream to its end, or to where it breaks, and returns what was written.
func read(s *stream, after int) (string, error) {
	w := httptest.NewRecorder()
	err := startEvents(w, s, after, true).pump(s, nil)
	return w.Body.String(), err
}

func answering(session *Session, id string) *stream {
	s := session.newStream()
	s.request = json.RawMessage(id)
	return s
}

func largeResult(n int) *backends.Response {
	return &backends.Response{Result: json.RawMessage(`{"text":"` + strings.Repeat("x", n) + `"}`)}
}

func testSession() (*Session, *replays) {
	all := &replays{}
	s := newSession(&Client{})
	s.budget = &budget{session: s, all: all}
	return s, all
}

// TestWritersWaitForTheReader: a stream takes its window from who writes, and then what
// the reader makes room for; nothing is lost.
func TestWritersWaitForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session, all := testSession()
		s := answering(session, "7")
		note := strings.Repeat("n", 10_000)
		written := 0
		go func() {
			for i := range 1000 {
				s.send(t.Context(), fmt.Appendf(nil, `{"n":%d,"x":%q}`, i, note))
				written++
			}
			s.finish(t.Context(), s.request, largeResult(3<<20), nil)
			session.endStream(s)
		}()
		synctest.Wait()
		if written < 100 || written > 110 || all.held.Load() > streamBytes {
			t.Errorf("%d notifications were taken, %d bytes, before anybody read; want a window of %d bytes", written, all.held.Load(), streamBytes)
		}
		body, err := read(s, -1)
		for i := range 1000 {
			if !strings.Contains(body, fmt.Sprintf(`{"n":%d,`, i)) {
				t.Fatalf("notification %d is missing", i)
			}
		}
		if err != nil || !strings.Contains(body, `"id":7,"result":{"text":"`+strings.Repeat("x", 3<<20)+`"}}`) {
			t.Errorf("the result is not whole: %d bytes, %v", len(body), err)
		}
		session.close()
	})
}

// TestUnreadStreamsBreak: when nobody reads, the call is given up, and who comes back is
// notified of that instead of getting a result with something missing before it.
func TestUnreadStreamsBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session, all := testSession()
		s := answering(session, "7")
		ctx, cancel := context.WithCancel(t.Context())
		s.cancel = cancel
		began := time.Now()
		s.finish(ctx, s.request, largeResult(3<<20), nil)
		session.endStream(s)
		if took := time.Since(began); took != slowReader || ctx.Err() == nil {
			t.Errorf("given up after %v, cancelled: %v; want %v", took, ctx.Err(), slowReader)
		}
		if all.broken.Load() != 1 || all.held.Load() > 1000 {
			t.Errorf("%d streams are counted as broken, %d bytes are held", all.broken.Load(), all.held.Load())
		}
		body, _ := read(s, 0)
		if !strings.Contains(body, "it was not read for 30s") || strings.Contains(body, "xxx") {
			t.Errorf("who came back got %.200s", body)
		}
		session.close()
	})
}

// TestResumeInTheMiddleOfAResult: a connection that is lost in the middle of a large
// result is no loss for a client that comes back.
func TestResumeInTheMiddleOfAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session, _ := testSession()
		s := answering(session, "7")
		go func() {
			s.send(t.Context(), []byte(`{"n":0}`))
			s.finish(t.Context(), s.request, largeResult(5<<20), nil)
			session.endStream(s)
		}()
		synctest.Wait()
		turn, _ := s.attach(-1)
		for range 30 {
			s.take(turn)
			synctest.Wait()
		}
		s.detach(turn, false)
		time.Sleep(20 * time.Second)
		body, err := read(s, 1)
		if err != nil || strings.Contains(body, `{"n":0}`) || !strings.Contains(body, strings.Repeat("x", 5<<20)+`"}}`) {
			t.Errorf("got %d bytes, %v; want the whole result and nothing twice", len(body), err)
		}
		session.close()
	})
}

// TestResumeBehindWhatIsGone: an answer that the budget had no place for ends with an
// error for the client that asks for it again.
func TestResumeBehindWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session, all := testSession()
		all.held.Store(replayTotal)
		s := answering(session, "7")
		go func() {
			s.finish(t.Context(), s.request, largeResult(5<<20), nil)
			session.endStream(s)
		}()
		synctest.Wait()
		turn, _ := s.attach(-1)
		for range 30 {
			s.take(turn)
			synctest.Wait()
		}
		s.detach(turn, false)
		body, err := read(s, 0)
		if err != nil || !strings.Contains(body, `"id":7,"error"`) || !strings.Contains(body, "not kept any more") {
			t.Errorf("got %.300s, %v", body, err)
		}
		session.close()
		if held := all.held.Load(); held != replayTotal {
			t.Errorf("%d bytes are booked in the end", held-replayTotal)
		}
	})
}

// TestAbandonedStreamsMakeRoom: what clients left behind that never came back for it does not
// take the resuming away from those that do, of the same session or of another.
func TestAbandonedStreamsMakeRoom(t *testing.T) {
	t.Run("of one session", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { abandon(t, false) }) })
	t.Run("of many sessions", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { abandon(t, true) }) })
}

// abandon leaves answers in the middle, then resumes another one.
func abandon(t *testing.T, others bool) {
	session, all := testSession()
	defer func() { session.close() }()
	leave := func(size int) *stream {
		s := answering(session, "7")
		go func() {
			s.finish(t.Context(), s.request, largeResult(size), nil)
			session.endStream(s)
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
			left := session
			defer left.close()
			session = newSession(&Client{})
			session.budget = &budget{session: session, all: all}
		}
	}
	time.Sleep(time.Minute)
	body, err := read(leave(5<<20), 0)
	if err != nil || !strings.Contains(body, strings.Repeat("x", 5<<20)+`"}}`) {
		t.Errorf("got %d bytes, %.200s, %v; want the whole result", len(body), body, err)
	}
	if held := all.held.Load(); held > replayTotal+streamBytes {
		t.Errorf("%d bytes are held", held)
	}
}

// TestWhatWasDeliveredGoes: the end of a stream is kept for seconds when it was read, for
// minutes when it was not, and not at all beyond the budgets.
func TestWhatWasDeliveredGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session, all := testSession()
		defer session.close()
		read7, unread8 := answering(session, "7"), answering(session, "8")
		var answered sync.WaitGroup
		answered.Go(func() {
			read7.finish(t.Context(), read7.request, largeResult(5<<20), nil)
			session.endStream(read7)
		})
		read(read7, -1)
		answered.Wait() // the stream has ended before it can have been delivered
		session.delivered(read7)
		unread8.finish(t.Context(), unread8.request, largeResult(100), nil)
		session.endStream(unread8)
		if held := all.held.Load(); held < 5<<20 {
			t.Errorf("%d bytes are kept, want the result for a client that lost it", held)
		}
		time.Sleep(deliveredFor)
		synctest.Wait()
		if held := all.held.Load(); held > 1000 || session.findStream(read7.id) != nil {
			t.Errorf("%d bytes are kept %v after they were delivered", held, deliveredFor)
		}
		if session.findStream(unread8.id) != unread8 {
			t.Error("the answer that was not delivered is gone")
		}
		time.Sleep(undeliveredFor)
		synctest.Wait()
		if held := all.held.Load(); held != 0 || session.findStream(unread8.id) != nil || all.evicted.Load() != 1 {
			t.Errorf("%d bytes are kept after %v, %d counted as evicted", held, undeliveredFor, all.evicted.Load())
		}
	})
}

// TestEndedStreamsAreBounded: however many sessions leave answers behind, all of them hold
// a bounded amount, and the oldest go first.
func TestEndedStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := &replays{}
		var sessions []*Session
		for range 200 {
			s := newSession(&Client{})
			s.budget = &budget{session: s, all: all}
			sessions = append(sessions, s)
			for range keptStreams + 2 {
				st := answering(s, "1")
				st.finish(t.Context(), st.request, largeResult(wholeResult-100), nil)
				s.endStream(st)
			}
			if n := len(s.streams); n > keptStreams {
				t.Fatalf("a session keeps %d ended streams", n)
			}
		}
		if held := all.held.Load(); held > streamsTotal+wholeResult {
			t.Errorf("all hold %d bytes, the bound is %d", held, streamsTotal)
		}
		if len(sessions[0].streams) != 0 || len(sessions[199].streams) != keptStreams {
			t.Errorf("the oldest session has %d streams, the newest %d", len(sessions[0].streams), len(sessions[199].streams))
		}
		for _, s := range sessions {
			s.close()
		}
		if held := all.held.Load(); held != 0 {
			t.Errorf("%d bytes are booked in the end", held)
		}
	})
}

// TestQuestionsAreBounded: a client has so many questions open and no more.
func TestQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session, _ := testSession()
		session.ready = true
		ctx, cancel := context.WithCancel(t.Context())
		for range maxAsked {
			go session.Ask(ctx, session, "elicitation/create", json.RawMessage(`{}`))
		}
		synctest.Wait()
		if _, err := session.Ask(ctx, session, "elicitation/create", json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), "64 questions open") {
			t.Errorf("one more: %v", err)
		}
		cancel()
		synctest.Wait()
		session.close()
	})
}
