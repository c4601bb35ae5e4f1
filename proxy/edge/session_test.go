package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleSessionsExpire: a session with a request or a stream is kept, an idle one ends.
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

// TestQuestionsThatEndedAreDropped: requests to a client that does not read its stream, and whose responses are not waited
// for any more, do not fill the stream.
func TestQuestionsThatEndedAreDropped(t *testing.T) {
	session := newSession(&Client{}, new(pool))
	session.ready = true
	defer session.close()
	go session.Ask(t.Context(), session, "elicitation/create", json.RawMessage(`{"message":"waited for"}`))
	standalone := session.streams.Standalone()
	<-standalone.wake
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	text := json.RawMessage(`{"message":"` + strings.Repeat("x", 10_000) + `"}`)
	for range 1000 {
		session.Ask(ended, session, "elicitation/create", text)
	}
	standalone.mu.Lock()
	defer standalone.mu.Unlock()
	if most := streamBytes + 2*len(text); standalone.size > most {
		t.Errorf("the stream holds %d bytes, want at most %d", standalone.size, most)
	}
	if first := standalone.pieces[0].data; !strings.Contains(string(first), "waited for") {
		t.Errorf("the first request is %.100s, want the one that is waited for", first)
	}
}

// TestQuestionsAreBounded: the pending requests to a client are bounded.
func TestQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := newSession(&Client{}, new(pool))
		session.ready = true
		ctx, cancel := context.WithCancel(t.Context())
		for range maxAsked {
			go session.Ask(ctx, session, "elicitation/create", json.RawMessage(`{}`))
		}
		synctest.Wait()
		if _, err := session.Ask(ctx, session, "elicitation/create", json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxAsked, " unanswered requests")) {
			t.Errorf("one more: %v", err)
		}
		cancel()
		synctest.Wait()
		session.close()
	})
}
