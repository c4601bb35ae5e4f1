package edge

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleSessionsExpire: one that works or listens stays, one that nobody uses goes.
func TestIdleSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := started(t)
		open := func() *Session {
			s := v.newSession(t.Context(), json.RawMessage(`{"protocolVersion":"2025-11-25"}`), Client{})
			v.sessions.add(s)
			return s
		}
		idle, working, listening := open(), open(), open()
		working.run(json.RawMessage("1"), func() {})
		done := listening.listen()
		time.Sleep(time.Hour + 2*sweepEvery)
		synctest.Wait()
		for name, c := range map[string]struct {
			s    *Session
			want bool
		}{"idle": {idle, false}, "working": {working, true}, "listening": {listening, true}} {
			if got := v.sessions.find(c.s.ID) != nil; got != c.want {
				t.Errorf("the %s session is there: %v, want %v", name, got, c.want)
			}
		}
		done()
		time.Sleep(time.Hour + 2*sweepEvery)
		synctest.Wait()
		if v.sessions.find(listening.ID) != nil {
			t.Error("the session that listened is still there an hour later")
		}
	})
}

// TestOfferKeepsWhatIsNewest: a session's own stream holds a bounded amount for a reader
// that is away, and never drops a request.
func TestOfferKeepsWhatIsNewest(t *testing.T) {
	all := &replays{}
	s := newStream(standaloneID, &budget{all: all})
	s.offer([]byte(`{"n":"asked"}`), true)
	frame := strings.Repeat("x", streamBytes/8)
	for i := range 20 {
		s.offer(fmt.Appendf(nil, `{"n":%d,"x":%q}`, i, frame), false)
	}
	if s.size > streamBytes+1000 || int64(s.size) != all.held.Load() {
		t.Errorf("the stream holds %d bytes, booked are %d, the limit is %d", s.size, all.held.Load(), streamBytes)
	}
	if all.dropped.Load() != 13 {
		t.Errorf("%d notifications are counted as dropped, want 13", all.dropped.Load())
	}
	s.close()
	w := httptest.NewRecorder()
	if err := startEvents(w, s, -1, true).pump(s, t.Context().Done()); err != nil {
		t.Fatal(err)
	}
	body := w.Body.String()
	if !strings.Contains(body, `{"n":19,`) || strings.Contains(body, `{"n":0,`) || !strings.Contains(body, "id: g/20\n") || !strings.Contains(body, "asked") {
		t.Errorf("the reader got %d bytes: want the newest frames, the request, and not the oldest", len(body))
	}
}

// TestStreamIsTakenOver: a client that comes back reads on where it was, and the
// connection that it lost ends.
func TestStreamIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream("p1", nil)
		s.send(t.Context(), []byte(`{"n":0}`))
		first, second := httptest.NewRecorder(), httptest.NewRecorder()
		ended := make(chan error)
		go func() { ended <- startEvents(first, s, -1, true).pump(s, nil) }()
		synctest.Wait()
		go func() { ended <- startEvents(second, s, 0, true).pump(s, nil) }()
		if err := <-ended; err != errTakenOver {
			t.Errorf("the first connection ended with %v", err)
		}
		s.send(t.Context(), []byte(`{"n":1}`))
		s.close()
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

// TestSendingAway: the client is asked when to come back, and keeps the stream.
func TestSendingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream("p1", nil)
		w := httptest.NewRecorder()
		ended := make(chan error)
		go func() { ended <- startEvents(w, s, -1, true).pump(s, nil) }()
		synctest.Wait()
		s.sendAway(1500 * time.Millisecond)
		if err := <-ended; err != errTakenOver {
			t.Errorf("the connection ended with %v", err)
		}
		if got := w.Body.String(); got != "id: p1/-1\ndata: \n\nretry: 1500\n\n" {
			t.Errorf("the client got %q", got)
		}
	})
}
