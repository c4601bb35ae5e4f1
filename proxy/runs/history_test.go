package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script"
)

// ended is a run that has ended.
func ended(h *Runs, id string, events ...script.Event) {
	ctx := h.Begin(context.Background(), HistoryRun{ID: id, Tool: "deploy", Args: json.RawMessage(`{"to":"prod"}`)})
	for _, e := range events {
		steps(ctx)(e)
	}
	h.End(ctx, End{State: durable.Done, Result: json.RawMessage(`{"content":[]}`)})
}

func event(key string) script.Event {
	return script.Event{Key: key, Kind: "call", Name: "ci_build", Start: time.Now(), Duration: time.Millisecond, Bytes: 10, Args: json.RawMessage(`{"a":1}`), Result: json.RawMessage(`{"b":2}`)}
}

func find(t *testing.T, h *Runs, id string) (steps int, left int) {
	t.Helper()
	r, ok, err := h.Find(t.Context(), id)
	if !ok || err != nil {
		t.Fatalf("Find(%s) = %v, %v", id, ok, err)
	}
	return len(r.Steps), r.LeftOut
}

// The last maxRuns runs are kept.
func TestTheLastRunsAreRemembered(t *testing.T) {
	h := NewHistory(HistoryOptions{})
	for i := range maxRuns + 50 {
		ended(h, fmt.Sprint("r", i), event("0"))
	}
	list, err := h.List(t.Context())
	if err != nil || len(list) != maxRuns || list[0].ID != fmt.Sprint("r", maxRuns+49) {
		t.Errorf("List returned %d runs, the first is %+v: %v", len(list), list[0], err)
	}
	if _, ok, _ := h.Find(t.Context(), "r0"); ok {
		t.Error("the first run is still there")
	}
	if steps, left := find(t, h, "r60"); steps != 1 || left != 0 {
		t.Errorf("r60 has %d steps, %d left out", steps, left)
	}
}

// The memory of ended runs, and of those in progress, is bounded, whatever runs do.
func TestMemoryIsBounded(t *testing.T) {
	h := NewHistory(HistoryOptions{})
	h.KeepValues(true)
	big := event("")
	big.Result = json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)
	big.Name, big.Err = strings.Repeat("n", 10_000), errors.New(strings.Repeat("e", 10_000))
	for i := range 100 {
		ctx := h.Begin(t.Context(), HistoryRun{ID: fmt.Sprint("r", i), Tool: "t", Args: big.Result})
		for k := range 50 {
			big.Key = fmt.Sprint(k)
			steps(ctx)(big)
		}
		h.End(ctx, End{State: durable.Failed, Error: strings.Repeat("e", 10_000), Result: big.Result})
	}
	if h.bytes > historyMaxBytes || h.bytes < historyMaxBytes/2 || len(h.past) > 100 || h.held.Load() != 0 {
		t.Errorf("%d bytes of %d runs that ended, %d of those under way", h.bytes, len(h.past), h.held.Load())
	}
	var real int64
	for _, r := range h.past {
		for _, s := range r.steps {
			real += int64(len(s.result) + len(s.args) + len(s.name) + len(s.err))
		}
	}
	if real > historyMaxBytes || real < h.bytes/2 {
		t.Errorf("%d bytes are held, %d are counted", real, h.bytes)
	}

	h = NewHistory(HistoryOptions{})
	h.KeepValues(true)
	left := 0
	for i := range 200 { // all at once
		ctx := h.Begin(t.Context(), HistoryRun{ID: fmt.Sprint("u", i), Tool: "t"})
		for k := range 20 {
			big.Key = fmt.Sprint(k)
			steps(ctx)(big)
		}
		left += h.under[fmt.Sprint("u", i)].left
	}
	if held := h.held.Load(); held > historyMaxBytes+maxValue*4 || left == 0 {
		t.Errorf("%d bytes are held of runs under way, %d steps left out", held, left)
	}
	h.KeepValues(false)
	if held := h.held.Load(); held > historyMaxBytes/4 || held < 0 {
		t.Errorf("%d bytes are held without values", held)
	}
}

// The first steps of a run are kept, and the others counted.
func TestStepsAreBounded(t *testing.T) {
	h := NewHistory(HistoryOptions{})
	var events []script.Event
	for i := range maxSteps + 500 {
		events = append(events, event(fmt.Sprint(i)))
	}
	ended(h, "long", events...)
	if steps, left := find(t, h, "long"); steps != maxSteps || left != 500 {
		t.Errorf("%d steps, %d left out", steps, left)
	}
}

// Arguments and results are kept only with admin.keepValues, without the secrets of the configuration.
func TestValues(t *testing.T) {
	secrets := &secret.Redactor{}
	secrets.Use([]string{"hunter2hunter2"})
	h := NewHistory(HistoryOptions{Secrets: secrets})
	e := event("0")
	e.Args, e.Err = json.RawMessage(`{"token":"hunter2hunter2"}`), errors.New("401 for hunter2hunter2")
	ended(h, "without", e)
	h.KeepValues(true)
	ended(h, "with", e)
	for id, want := range map[string]bool{"without": false, "with": true} {
		r, _, _ := h.Find(t.Context(), id)
		text, _ := json.Marshal(r)
		if strings.Contains(string(text), "hunter2") || strings.Contains(string(text), `"arguments"`) != want || strings.Contains(string(text), `"result"`) != want {
			t.Errorf("%s: %s", id, text)
		}
	}
}

// A run in progress has its age and its current step.
func TestARunUnderWay(t *testing.T) {
	h := NewHistory(HistoryOptions{})
	ctx := h.Begin(t.Context(), HistoryRun{ID: "r", Tool: "deploy"})
	steps(ctx)(event("0"))
	atEffect(ctx, "1", "call", "ci_test")
	list, _ := h.List(t.Context())
	if len(list) != 1 || list[0].State != "running" || list[0].Step == nil || list[0].Step.Name != "ci_test" || !list[0].Step.Running || !list[0].EndedAt.IsZero() || list[0].StepCount != 1 {
		t.Errorf("List = %+v", list)
	}
	h.Drop(ctx)
	if list, _ := h.List(t.Context()); len(list) != 0 || h.held.Load() != 0 {
		t.Errorf("a run that was dropped is there: %+v, %d bytes", list, h.held.Load())
	}
}

// A kept run is reported as the store has it, also if another process has executed it; an open question is readable
// whether or not values are kept.
func TestTheStoreTakesOver(t *testing.T) {
	kept := durable.NewMemory(durable.Options{}, script.NewPool(64<<20, 10, nil))
	t.Cleanup(func() { kept.Close() })
	h := NewHistory(HistoryOptions{Store: func() durable.Store { return kept }})
	row, _, err := kept.Start(t.Context(), durable.Run{Tool: "onboard", Args: json.RawMessage(`{"who":"ana"}`)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := kept.Acquire(t.Context(), row.ID, "somebody")
	if err != nil {
		t.Fatal(err)
	}
	q := durable.Question{Key: "1", Method: "elicitation/create", Params: json.RawMessage(`{"message":"Ship?","requestedSchema":{"type":"object"}}`)}
	if err := l.End(t.Context(), durable.Outcome{State: durable.Waiting, Questions: []durable.Question{q}}); err != nil {
		t.Fatal(err)
	}
	list, err := h.List(t.Context())
	if err != nil || len(list) != 1 || list[0].State != "waiting" || list[0].Open != 1 || !list[0].Kept {
		t.Fatalf("List = %+v, %v", list, err)
	}
	r, ok, err := h.Find(t.Context(), row.ID)
	if !ok || err != nil || len(r.Questions) != 1 || r.Questions[0].Message != "Ship?" || r.Arguments != nil {
		t.Errorf("Find = %+v, %v, %v", r, ok, err)
	}
	if _, ok, err := h.Find(t.Context(), "nobody"); ok || err != nil {
		t.Errorf("an unknown run: %v, %v", ok, err)
	}
}
