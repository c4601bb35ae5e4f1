package runstest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

var question = durable.Question{Key: "1", Method: "elicitation/create", Params: json.RawMessage(`{"message": "Ship?"}`)}

// asking returns a run that waits for question.
func asking(t *testing.T, s durable.Store, q ...durable.Question) string {
	t.Helper()
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	must(t, l.Begin(t.Context(), script.Entry{Key: "1", Kind: "elicit", Attempt: 1}))
	end(t, l, durable.Outcome{State: durable.Waiting, Questions: q, Wake: time.Now().Add(time.Hour)})
	return id
}

func testAnswers(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	id := asking(t, s, question)
	if due, _, err := s.Due(t.Context(), 10); err != nil || len(due) != 0 {
		t.Errorf("due before the answer: %v, %v", due, err)
	}
	wantErr(t, "Answer to no question", s.Answer(t.Context(), id, "2", json.RawMessage(`{}`)), durable.ErrNoQuestion)
	wantErr(t, "Answer to no run", s.Answer(t.Context(), "x", "1", json.RawMessage(`{}`)), durable.ErrUnknown)
	var wg sync.WaitGroup
	first := make(chan string, 8)
	for _, answer := range []string{`"a"`, `"b"`, `"c"`, `"d"`} {
		other := open(t, durable.Options{})
		wg.Go(func() {
			switch err := other.Answer(t.Context(), id, "1", json.RawMessage(answer)); {
			case err == nil:
				first <- answer
			case !errors.Is(err, durable.ErrAnswered):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(first) != 1 {
		t.Fatalf("%d answers won", len(first))
	}
	want := <-first
	if due, _, err := s.Due(t.Context(), 10); err != nil || !slices.Equal(due, []string{id}) {
		t.Errorf("due after the answer: %v, %v", due, err)
	}
	l := take(t, s, id)
	q := l.Run().Questions
	if len(q) != 1 || string(q[0].Answer) != want || string(q[0].Params) != string(question.Params) || q[0].Method != question.Method {
		t.Errorf("questions %+v, want the answer %s", q, want)
	}
	// A question that is asked again with the same key keeps its answer.
	end(t, l, durable.Outcome{State: durable.Waiting, Questions: []durable.Question{question}})
	if r, _ := get(t, s, id); string(r.Questions[0].Answer) != want {
		t.Errorf("asked again, the answer is %s", r.Questions[0].Answer)
	}
	if due, _, _ := s.Due(t.Context(), 10); len(due) != 1 {
		t.Error("a run that stopped for a question that has its answer is not due")
	}
}

func testLate(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	late := question
	late.Deadline = time.Now().Add(-time.Second)
	id := asking(t, s, late)
	wantErr(t, "Answer behind the deadline", s.Answer(t.Context(), id, "1", json.RawMessage(`{}`)), durable.ErrLate)
}

func testAnswerWhileRunning(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	must(t, l.Ask(t.Context(), question))
	if r, _ := get(t, s, id); len(r.Questions) != 1 || r.State != durable.Running {
		t.Errorf("the run is %+v, want one question", r)
	}
	changed := s.Changed()
	must(t, open(t, durable.Options{}).Answer(t.Context(), id, "1", json.RawMessage(`{"action":"accept"}`)))
	<-changed
	if q, err := l.Answers(t.Context()); err != nil || len(q) != 1 || string(q[0].Answer) != `{"action":"accept"}` {
		t.Errorf("Answers: %+v, %v", q, err)
	}
	second := durable.Question{Key: "2", Method: question.Method, Params: question.Params}
	end(t, l, durable.Outcome{State: durable.Waiting, Questions: []durable.Question{second}})
	must(t, s.Answer(t.Context(), id, "2", json.RawMessage(`{"action":"decline"}`)))
	next := take(t, s, id)
	if q, err := l.Answers(t.Context()); err != nil || len(q) != 2 || string(q[1].Answer) != `{"action":"decline"}` {
		t.Errorf("Answers of a lease that is over: %+v, %v", q, err)
	}
	end(t, next, durable.Outcome{State: durable.Done})
	wantErr(t, "Answer of a run that has ended", s.Answer(t.Context(), id, "1", json.RawMessage(`{}`)), durable.ErrEnded)
}

func testClosed(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	ask := func(keys ...string) (all []durable.Question) {
		for _, key := range keys {
			all = append(all, durable.Question{Key: key, Method: "elicitation/create", Params: json.RawMessage(`{}`)})
		}
		return all
	}
	are := func(id string, want ...string) {
		t.Helper()
		r, _ := get(t, s, id)
		var have []string
		for _, q := range r.Questions {
			have = append(have, q.Key)
		}
		if !slices.Equal(have, want) {
			t.Errorf("questions %q, want %q", have, want)
		}
	}
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	must(t, l.Begin(t.Context(), call("1")))
	must(t, l.Begin(t.Context(), call("2")))
	must(t, l.Ask(t.Context(), ask("1", "1/0/a", "1/0/b", "10", "2/0/c")...))
	must(t, s.Answer(t.Context(), id, "1/0/a", json.RawMessage(`{}`)))
	must(t, l.Record(answered("1", `1`)))
	end(t, l, durable.Outcome{State: durable.Doubt, Doubts: []string{"2"}})
	are(id, "1/0/a", "10", "2/0/c")
	must(t, s.Resolve(t.Context(), id, "2", durable.Resolution{Failed: "no"}))
	are(id, "1/0/a", "10")
	l = take(t, s, id)
	must(t, l.Record(answered("10", `1`)))
	end(t, l, durable.Outcome{State: durable.Waiting, Questions: ask("11")})
	are(id, "1/0/a", "11")
	must(t, s.Cancel(t.Context(), id, "enough"))
	are(id, "1/0/a")

	id = runstestStart(t, s, example()).ID
	l = take(t, s, id)
	must(t, l.Ask(t.Context(), ask("3")...))
	end(t, l, durable.Outcome{State: durable.Done})
	are(id)
}

func testResolve(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	for _, key := range []string{"0", "1", "2"} {
		must(t, l.Begin(t.Context(), call(key)))
	}
	must(t, l.Record(answered("3", `"3"`)))
	wantErr(t, "Resolve while it runs", s.Resolve(t.Context(), id, "0", durable.Resolution{Repeat: true}), durable.ErrNoDoubt)
	end(t, l, durable.Outcome{State: durable.Doubt, Doubts: []string{"0", "1", "2"}, Error: "in doubt"})
	wantErr(t, "Resolve of no doubt", s.Resolve(t.Context(), id, "3", durable.Resolution{Repeat: true}), durable.ErrNoDoubt)

	other := open(t, durable.Options{})
	must(t, other.Resolve(t.Context(), id, "1", durable.Resolution{Done: json.RawMessage(`{"id": 7}`)}))
	must(t, other.Resolve(t.Context(), id, "0", durable.Resolution{Failed: "it was not"}))
	wantErr(t, "Resolve for the second time", s.Resolve(t.Context(), id, "1", durable.Resolution{Repeat: true}), durable.ErrNoDoubt)
	if r, _ := get(t, s, id); r.State != durable.Doubt || !slices.Equal(r.Doubts, []string{"2"}) {
		t.Errorf("with one doubt left: %v %v", r.State, r.Doubts)
	}
	must(t, other.Resolve(t.Context(), id, "2", durable.Resolution{Repeat: true}))
	if due, _, err := s.Due(t.Context(), 10); err != nil || !slices.Equal(due, []string{id}) {
		t.Errorf("due after all were resolved: %v, %v", due, err)
	}
	l = take(t, s, id)
	entries, err := l.Open(t.Context(), header)
	must(t, err)
	if len(entries) != 4 || entries[0].Key != "3" {
		t.Fatalf("entries %+v", entries)
	}
	size := int64(0)
	for _, e := range entries {
		size += durable.Size(e)
	}
	if r := l.Run(); r.Bytes != size {
		t.Errorf("the journal has %d bytes, and the run says %d", size, r.Bytes)
	}
	done, failed, again := entries[1], entries[2], entries[3]
	if done.Key != "1" || !done.Done || !strings.Contains(string(done.Result), `"structuredContent":{"id": 7}`) {
		t.Errorf("--done made %+v", done)
	}
	if failed.Key != "0" || failed.Failure == nil || *failed.Failure != (script.Failure{Kind: "tool", Message: "it was not"}) {
		t.Errorf("--failed made %+v", failed)
	}
	if again.Key != "2" || again.Done || !again.Again {
		t.Errorf("--repeat made %+v", again)
	}
	end(t, l, durable.Outcome{State: durable.Done})
}

func testCancel(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	must(t, l.Begin(t.Context(), call("0")))
	must(t, s.Cancel(t.Context(), id, "wrong customer"))
	<-l.Lost()
	wantErr(t, "Begin of a cancelled run", l.Begin(t.Context(), call("1")), durable.ErrCancelled)
	_ = l.Record(answered("0", "1"))
	must(t, l.End(t.Context(), durable.Outcome{State: durable.Done, Result: json.RawMessage(`1`)}))
	r, entries := get(t, s, id)
	if r.State != durable.Cancelled || r.Error != "wrong customer" || r.Result != nil {
		t.Errorf("the run is %v %q %s", r.State, r.Error, r.Result)
	}
	if len(entries) != 1 || !entries[0].Done {
		t.Errorf("entries %+v, want the call that ended", entries)
	}
	wantErr(t, "Cancel for the second time", s.Cancel(t.Context(), id, ""), durable.ErrEnded)
	wantErr(t, "Cancel of no run", s.Cancel(t.Context(), "x", ""), durable.ErrUnknown)
	if due, _, _ := s.Due(t.Context(), 10); len(due) != 0 {
		t.Errorf("due: %v", due)
	}
}

func testDue(t *testing.T, open Open) {
	s := open(t, short)
	wantNext(t, s, "without runs", func(next time.Duration) bool { return next < 0 })
	later := runstestStart(t, s, example()).ID
	l := takeLater(t, s, later)
	changed := s.Changed()
	endOrLose(t, s, l, durable.Outcome{State: durable.Sleeping, Wake: time.Now().Add(time.Hour)})
	<-changed
	wantNext(t, s, "with a run that sleeps for an hour", func(next time.Duration) bool { return next > 0 && next <= time.Hour })
	soon := runstestStart(t, s, example()).ID
	l = takeLater(t, s, soon)
	endOrLose(t, s, l, durable.Outcome{State: durable.Sleeping, Wake: time.Now().Add(30 * time.Millisecond)})
	if ids := waitDue(t, s); !slices.Equal(ids, []string{soon}) {
		t.Errorf("due: %v, want %v", ids, soon)
	}
	endOrLose(t, s, takeLater(t, s, soon), durable.Outcome{State: durable.Doubt})
	expiring := example()
	expiring.Expires = time.Now().Add(20 * time.Millisecond)
	over := runstestStart(t, s, expiring).ID
	endOrLose(t, s, takeLater(t, s, over), durable.Outcome{State: durable.Paused})
	if ids := waitDue(t, s); !slices.Equal(ids, []string{over}) {
		t.Errorf("due: %v, want the run whose lifetime is over, %v", ids, over)
	}
	endOrLose(t, s, takeLater(t, s, over), durable.Outcome{State: durable.Failed, Error: "limit reached: lifetime"})
	silent := runstestStart(t, s, example()).ID
	l = takeLater(t, s, silent)
	must(t, l.Begin(t.Context(), call("0")))
	if ids := waitDue(t, s); !slices.Equal(ids, []string{silent}) {
		t.Errorf("due: %v, want the run whose owner's lease has expired, %v", ids, silent)
	}
}

// testManyDue: who asks for fewer runs than are due is told so.
func testManyDue(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	for range 3 {
		endOrLose(t, s, takeLater(t, s, runstestStart(t, s, example()).ID), durable.Outcome{State: durable.Sleeping, Wake: time.Now().Add(-time.Second)})
	}
	for n, want := range map[int]bool{2: true, 3: false} {
		if ids, next, err := s.Due(t.Context(), n); err != nil || len(ids) != n || (next == 0) != want {
			t.Errorf("Due(%d): %v, %v, %v", n, ids, next, err)
		}
	}
}

// wantNext compares the time until the next run is due.
func wantNext(t *testing.T, s durable.Store, when string, right func(time.Duration) bool) {
	t.Helper()
	if due, next, err := s.Due(t.Context(), 10); err != nil || len(due) != 0 || !right(next) {
		t.Errorf("Due %s: %v, %v, %v", when, due, next, err)
	}
}

// endOrLose ends a lease; if it has expired by now, it acquires the run again and ends that lease.
func endOrLose(t *testing.T, s durable.Store, l durable.Lease, o durable.Outcome) {
	t.Helper()
	for {
		err := l.End(t.Context(), o)
		if err == nil {
			return
		}
		if !errors.Is(err, durable.ErrTaken) {
			t.Fatal(err)
		}
		l = takeLater(t, s, l.Run().ID)
	}
}

func testResume(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	wantErr(t, "Resume while it runs", s.Resume(t.Context(), id), durable.ErrBusy)
	end(t, l, durable.Outcome{State: durable.Paused})
	if due, _, _ := s.Due(t.Context(), 10); len(due) != 0 {
		t.Errorf("a paused run is due: %v", due)
	}
	must(t, s.Resume(t.Context(), id))
	if due, _, _ := s.Due(t.Context(), 10); !slices.Equal(due, []string{id}) {
		t.Errorf("due: %v", due)
	}
	end(t, take(t, s, id), durable.Outcome{State: durable.Done})
	wantErr(t, "Resume of a run that has ended", s.Resume(t.Context(), id), durable.ErrEnded)
}

func testList(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	var ids []string
	for i := range 7 {
		r := example()
		if i%2 == 1 {
			r.Tool, r.Principal = "other", ""
		}
		ids = append(ids, runstestStart(t, s, r).ID)
	}
	end(t, take(t, s, ids[0]), durable.Outcome{State: durable.Failed, Error: "no \x00 room"})
	var seen []string
	for after, pages := "", 0; ; pages++ {
		list, next, err := s.List(t.Context(), durable.Filter{Limit: 3, After: after})
		must(t, err)
		for _, r := range list {
			seen = append(seen, r.ID)
		}
		if after = next; after == "" || pages > 7 {
			break
		}
	}
	if len(seen) != 7 || seen[0] != ids[0] {
		t.Errorf("%d runs on all pages, want 7, the last changed first: %v", len(seen), seen)
	}
	slices.Sort(seen)
	if slices.Sort(ids); !slices.Equal(ids, seen) {
		t.Errorf("listed %v\nwant %v", seen, ids)
	}
	for _, tt := range []struct {
		filter durable.Filter
		want   int
	}{
		{durable.Filter{Tool: "other"}, 3}, {durable.Filter{Tool: "none"}, 0}, {durable.Filter{Principal: "anna\x00b"}, 4},
		{durable.Filter{States: []durable.State{durable.Failed, durable.Doubt}}, 1}, {durable.Filter{States: []durable.State{durable.Running}, Tool: "other"}, 3},
		{durable.Filter{Since: time.Now().Add(time.Hour)}, 0}, {durable.Filter{Since: time.Now().Add(-time.Hour)}, 7}, {durable.Filter{SealedBy: "no such key"}, 0},
	} {
		list, next, err := s.List(t.Context(), tt.filter)
		if err != nil || len(list) != tt.want || next != "" {
			t.Errorf("List(%+v): %d runs, %q, %v; want %d", tt.filter, len(list), next, err, tt.want)
		}
	}
	list, _, err := s.List(t.Context(), durable.Filter{States: []durable.State{durable.Failed}})
	if err != nil || len(list) != 1 || list[0].Error != "no \x00 room" || list[0].Principal != "anna\x00b" || list[0].Tool != "onboard" {
		t.Errorf("List: %+v, %v", list, err)
	}
	waiting := asking(t, s, question)
	list, _, err = s.List(t.Context(), durable.Filter{States: []durable.State{durable.Waiting}})
	if err != nil || len(list) != 1 || list[0].ID != waiting || list[0].Questions != 1 || list[0].Entries != 1 || list[0].Wake.IsZero() {
		t.Errorf("List: %+v, %v", list, err)
	}
}

func testPrune(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	r := example()
	r.Dedupe = "k"
	done, open1 := runstestStart(t, s, r).ID, asking(t, s, question)
	end(t, take(t, s, done), durable.Outcome{State: durable.Done})
	failed := runstestStart(t, s, example()).ID
	end(t, take(t, s, failed), durable.Outcome{State: durable.Failed})
	nobody, anna, soon := "nobody", "anna\x00b", time.Now().Add(time.Minute)
	for _, tt := range []struct {
		old  durable.Old
		want int
	}{
		{durable.Old{Before: time.Now().Add(-time.Hour)}, 0}, {durable.Old{Before: soon, Principal: &nobody}, 0},
		{durable.Old{Before: soon, States: []durable.State{durable.Failed}}, 1}, {durable.Old{Before: soon, Principal: &anna}, 1}, {durable.Old{Before: soon}, 0},
	} {
		if n, err := s.Prune(t.Context(), tt.old); err != nil || n != tt.want {
			t.Errorf("Prune(%+v): %d, %v; want %d", tt.old, n, err, tt.want)
		}
	}
	_, _, err := s.Get(t.Context(), done)
	wantErr(t, "Get of a pruned run", err, durable.ErrUnknown)
	get(t, s, open1)
	if runstestStart(t, s, r).ID == done {
		t.Error("the key of a pruned run has the same run again")
	}
}

func testLimits(t *testing.T, open Open) {
	s := open(t, durable.Options{MaxEntries: 2, MaxBytes: 2000})
	id := runstestStart(t, s, example()).ID
	l := take(t, s, id)
	must(t, l.Begin(t.Context(), call("0")))
	must(t, l.Record(answered("0", `1`)))
	var limit *durable.LimitError
	if err := l.Record(answered("1", `"`+strings.Repeat("x", 2000)+`"`)); !errors.As(err, &limit) || limit.Name != "maxBytes" {
		t.Errorf("Record of too much: %v", err)
	}
	must(t, l.Begin(t.Context(), call("2")))
	if err := l.Record(answered("2", `"`+strings.Repeat("x", 2000)+`"`)); !errors.As(err, &limit) {
		t.Errorf("Record of too much: %v", err)
	}
	must(t, l.Record(durable.TooLarge(call("2"), limit)))
	if err := l.Begin(t.Context(), call("3")); !errors.As(err, &limit) || limit.Name != "maxEntries" || !strings.Contains(err.Error(), "2") {
		t.Errorf("Begin of too many: %v", err)
	}
	end(t, l, durable.Outcome{State: durable.Failed, Error: limit.Error()})

	id = runstestStart(t, s, example()).ID
	l = take(t, s, id)
	must(t, l.Begin(t.Context(), call("0")))
	end(t, l, durable.Outcome{State: durable.Doubt, Doubts: []string{"0"}})
	if err := s.Resolve(t.Context(), id, "0", durable.Resolution{Done: json.RawMessage(`"` + strings.Repeat("x", 2000) + `"`)}); !errors.As(err, &limit) || limit.Name != "maxBytes" {
		t.Errorf("Resolve with too much: %v", err)
	}
	must(t, s.Resolve(t.Context(), id, "0", durable.Resolution{Done: json.RawMessage(`7`)}))
}

func testKeep(t *testing.T, open Open) {
	for _, keep := range []durable.Keep{durable.KeepFull, durable.KeepOutline, durable.KeepNone} {
		s := open(t, durable.Options{Keep: keep})
		id := runstestStart(t, s, example()).ID
		l := take(t, s, id)
		must(t, l.Record(answered("0", `"secret"`)))
		must(t, l.Ask(t.Context(), question))
		must(t, s.Answer(t.Context(), id, question.Key, json.RawMessage(`{"action":"accept"}`)))
		end(t, l, durable.Outcome{State: durable.Done, Result: json.RawMessage(`"result"`)})
		r, entries := get(t, s, id)
		if r.State != durable.Done || string(r.Result) != `"result"` {
			t.Errorf("keep %s: the run is %v %s", keep, r.State, r.Result)
		}
		wantEntries, wantBody, wantQuestions := 1, `"secret"`, 1
		switch keep {
		case durable.KeepOutline:
			wantBody, wantQuestions = "", 0
		case durable.KeepNone:
			wantEntries, wantQuestions = 0, 0
		}
		if len(entries) != wantEntries || len(r.Questions) != wantQuestions {
			t.Errorf("keep %s: %d entries and %d questions, want %d and %d", keep, len(entries), len(r.Questions), wantEntries, wantQuestions)
			continue
		}
		if wantEntries == 1 && (string(entries[0].Result) != wantBody || (wantBody == "") != (entries[0].Args == nil) || entries[0].Name != "billing.charge") {
			t.Errorf("keep %s: entry %+v", keep, entries[0])
		}
	}
}

func testStats(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	asking(t, s, question)
	runstestStart(t, s, example())
	end(t, take(t, s, runstestStart(t, s, example()).ID), durable.Outcome{State: durable.Done})
	st, err := s.Stats(t.Context())
	must(t, err)
	if len(st.States) != len(durable.States) || st.States[durable.Waiting] != 1 || st.States[durable.Running] != 1 || st.States[durable.Done] != 1 || st.States[durable.Doubt] != 0 {
		t.Errorf("Stats: %+v", st)
	}
	if time.Since(st.OldestWaiting).Abs() > time.Minute {
		t.Errorf("the oldest has waited since %v", st.OldestWaiting)
	}
	must(t, s.Ping(t.Context()))
}

func testChanged(t *testing.T, open Open) {
	s := open(t, durable.Options{})
	other := open(t, durable.Options{})
	id := asking(t, s, question)
	changed := s.Changed()
	must(t, other.Answer(t.Context(), id, "1", json.RawMessage(`{}`)))
	<-changed
	changed = s.Changed()
	must(t, other.Cancel(t.Context(), id, "enough"))
	<-changed
}

func testOutbox(t *testing.T, open Open) {
	s := open(t, durable.Options{Notify: []durable.State{durable.Waiting, durable.Failed}})
	id := asking(t, s, question)
	end(t, take(t, s, runstestStart(t, s, example()).ID), durable.Outcome{State: durable.Done})
	other := open(t, durable.Options{Notify: []durable.State{durable.Waiting, durable.Failed}})
	got, err := s.Claim(t.Context(), 10, time.Hour)
	must(t, err)
	if len(got) != 1 || got[0].Run != id || got[0].Tool != "onboard" || got[0].State != durable.Waiting || got[0].Attempts != 1 || time.Since(got[0].At).Abs() > time.Minute {
		t.Fatalf("claimed %+v, want that %s waits", got, id)
	}
	if again, err := other.Claim(t.Context(), 10, time.Hour); err != nil || len(again) != 0 {
		t.Errorf("another one claims %+v, %v", again, err)
	}
	must(t, s.Later(t.Context(), got[0], -time.Second))
	got, err = other.Claim(t.Context(), 10, time.Hour)
	must(t, err)
	if len(got) != 1 || got[0].Attempts != 2 {
		t.Fatalf("claimed %+v, want the second attempt", got)
	}
	must(t, other.Sent(t.Context(), got[0]))
	end(t, take(t, s, id), durable.Outcome{State: durable.Failed})
	if got, err := s.Claim(t.Context(), 10, time.Hour); err != nil || len(got) != 1 || got[0].State != durable.Failed {
		t.Errorf("claimed %+v, %v: want that the run has failed", got, err)
	}
	if _, err := s.Prune(t.Context(), durable.Old{Before: time.Now().Add(time.Minute)}); err != nil {
		t.Error(err)
	}
	if got, err := s.Claim(t.Context(), 10, 0); err != nil || len(got) != 0 {
		t.Errorf("claimed %+v, %v of runs that are forgotten", got, err)
	}
}

func testUncounted(t *testing.T, open Open) {
	s, other := open(t, durable.Options{}), open(t, durable.Options{})
	waits, running, done := runstestStart(t, s, example()).ID, runstestStart(t, s, example()).ID, runstestStart(t, s, example()).ID
	end(t, take(t, s, waits), durable.Outcome{State: durable.Waiting, Questions: []durable.Question{question}})
	end(t, take(t, s, done), durable.Outcome{State: durable.Done})
	l := take(t, s, running)
	for _, id := range []string{waits, running} {
		must(t, s.Cancel(t.Context(), id, "enough"))
	}
	end(t, l, durable.Outcome{State: durable.Done})
	if n, err := s.Prune(t.Context(), durable.Old{Before: time.Now().Add(time.Hour)}); err != nil || n != 3 {
		t.Errorf("Prune: %d, %v", n, err)
	}
	if told, err := s.Claim(t.Context(), 10, time.Minute); err != nil || len(told) != 0 {
		t.Errorf("notifications of %+v, %v are sent", told, err)
	}
	var all []durable.Event
	for range 4 {
		for _, s := range []durable.Store{s, other} {
			some, err := s.Uncounted(t.Context(), 1)
			must(t, err)
			all = append(all, some...)
		}
	}
	ids := map[string]bool{}
	for _, e := range all {
		if ids[e.Run] = true; e.Tool != "onboard" || e.State != durable.Cancelled {
			t.Errorf("counted is %+v", e)
		}
	}
	if len(all) != 2 || !ids[waits] || !ids[running] {
		t.Errorf("counted are %+v, want the two that were cancelled", all)
	}
}
