package runs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// List returns the runs in progress and the last maxRuns of the others, the newest first. The store's state of a run
// has precedence, unless the run is in progress here. The error says that the store does not answer; the runs are then
// those of this process.
func (h *Runs) List(ctx context.Context) ([]status.Run, error) {
	all := h.here()
	kept, err := h.stored(ctx)
	for _, s := range kept {
		r := all[s.ID]
		if r == nil {
			r = &status.Run{ID: s.ID, Tool: s.Tool, StartedAt: s.Created.UTC(), StepCount: s.Entries}
			all[s.ID] = r
		}
		h.put(r, s)
	}
	list := make([]status.Run, 0, len(all))
	for _, r := range all {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b status.Run) int {
		if a.Final() != b.Final() {
			if a.Final() {
				return 1
			}
			return -1
		}
		return b.StartedAt.Compare(a.StartedAt)
	})
	over := slices.IndexFunc(list, func(r status.Run) bool { return r.Final() })
	if over >= 0 && len(list)-over > maxRuns {
		list = list[:over+maxRuns]
	}
	return list, err
}

// Here returns the runs that this process knows, without reading the store.
func (h *Runs) Here() []status.Run {
	all := h.here()
	list := make([]status.Run, 0, len(all))
	for _, r := range all {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b status.Run) int { return a.StartedAt.Compare(b.StartedAt) })
	return list
}

// here are the runs that this process knows.
func (h *Runs) here() map[string]*status.Run {
	now := time.Now()
	h.mu.Lock()
	records := slices.Clone(h.past)
	for _, r := range h.under {
		records = append(records, r)
	}
	h.mu.Unlock()
	all := make(map[string]*status.Run, len(records))
	for _, r := range records {
		s := r.show(now, false)
		all[r.id] = &s
	}
	return all
}

// stored returns the newest runs of the store.
func (h *Runs) stored(ctx context.Context) ([]durable.Summary, error) {
	s := h.store()
	if s == nil {
		return nil, nil
	}
	list, _, err := s.List(ctx, durable.Filter{Limit: maxRuns})
	return list, err
}

func (h *Runs) store() durable.Store {
	if h.o.Store == nil {
		return nil
	}
	return h.o.Store()
}

// put copies the store's state of a run to r.
func (h *Runs) put(r *status.Run, s durable.Summary) {
	r.Kept, r.State, r.Open = true, string(s.State), s.Questions
	r.StepCount = max(r.StepCount, s.Entries)
	if s.Error != "" {
		r.Error = h.o.Secrets.Text(s.Error)
	}
	h.place(r, s.State, s.Updated)
}

// place sets when a run of the store ended.
func (h *Runs) place(r *status.Run, state durable.State, updated time.Time) {
	end := time.Now()
	if state.Final() {
		if r.EndedAt.IsZero() {
			r.EndedAt = updated.UTC()
		}
		end = r.EndedAt
		r.Step = nil
	}
	r.DurationMs = milliseconds(end.Sub(r.StartedAt))
}

// Find returns a run with its steps and open questions; false if there is none of that id. The error says that the
// store does not answer, and that this process does not know the run.
func (h *Runs) Find(ctx context.Context, id string) (status.Run, bool, error) {
	h.mu.Lock()
	r := h.under[id]
	if r == nil {
		if i := slices.IndexFunc(h.past, func(r *record) bool { return r.id == id }); i >= 0 {
			r = h.past[i]
		}
	}
	h.mu.Unlock()
	var run status.Run
	if r != nil {
		run = r.show(time.Now(), true)
	}
	s := h.store()
	if s == nil {
		return run, r != nil, nil
	}
	row, entries, err := s.Get(ctx, id)
	known := err == nil || errors.Is(err, durable.ErrDamaged) || errors.Is(err, durable.ErrSealed)
	if !known || row.ID == "" {
		if errors.Is(err, durable.ErrUnknown) || r != nil {
			err = nil
		}
		return run, r != nil, err
	}
	h.join(&run, row, entries)
	return run, true, nil
}

// join completes run with the store's record of it.
func (h *Runs) join(run *status.Run, row durable.Run, entries []script.Entry) {
	run.ID, run.Tool, run.State, run.Kept, run.StartedAt = row.ID, row.Tool, string(row.State), true, row.Created.UTC()
	if row.Error != "" {
		run.Error = h.o.Secrets.Text(row.Error)
	}
	if h.keepValues.Load() {
		run.Arguments, run.Result = h.shownValue(row.Args), h.shownValue(row.Result)
	}
	run.StepCount = max(run.StepCount, len(entries))
	h.place(run, row.State, row.Updated)
	for _, q := range row.Questions {
		if q.Answer == nil && !row.State.Final() {
			run.Questions = append(run.Questions, h.question(q))
		}
	}
	run.Open = len(run.Questions)
	if len(entries) > len(run.Steps) { // another process has executed some of the steps
		run.Steps, run.LeftOut = h.stepsOf(row, entries), max(0, len(entries)-maxSteps)
	}
}

func (h *Runs) stepsOf(row durable.Run, entries []script.Entry) (steps []status.Step) {
	now := time.Now()
	for _, e := range entries[:min(len(entries), maxSteps)] {
		s := status.Step{Key: e.Key, Kind: e.Kind, Name: h.o.Secrets.Text(e.Name), Running: !e.Done && !row.State.Final(), Bytes: len(e.Result)}
		began, ended := e.Began, e.Ended
		if began.IsZero() {
			began = ended
		}
		if ended.IsZero() {
			ended = latest(now, began)
			if row.State.Final() {
				ended = latest(row.Updated, began)
			}
		}
		s.StartMs, s.DurationMs = milliseconds(began.Sub(row.Created)), milliseconds(ended.Sub(began))
		if e.Failure != nil {
			s.Error = h.o.Secrets.Text(e.Failure.Message)
		}
		if h.keepValues.Load() {
			s.Arguments, s.Result = h.shownValue(e.Args), h.shownValue(e.Result)
		}
		steps = append(steps, s)
	}
	return steps
}

// shownValue is a value of the store in the form for display; nil for none.
func (h *Runs) shownValue(v json.RawMessage) json.RawMessage {
	if len(v) == 0 || !json.Valid(v) {
		return nil
	}
	return bounded(h.o.Secrets.JSON(v))
}

// question is an open question for display. Its message and schema are shown whether or not values are kept: a person
// has to answer it.
func (h *Runs) question(q durable.Question) status.Question {
	var params struct {
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
	}
	_ = json.Unmarshal(h.o.Secrets.JSON(q.Params), &params) // invalid params have no message
	return status.Question{Key: q.Key, Method: q.Method, Message: params.Message, Schema: params.Schema, Deadline: utc(q.Deadline)}
}
