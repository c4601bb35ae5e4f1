//go:build suites

package crash

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// repeat sends the request of every run once more: it has the same result, and makes no effect.
func (tr *trial) repeat() {
	for _, c := range tr.runs {
		r, err := tr.call(c, "")
		if err != nil || r.Error != nil || string(r.Result.StructuredContent) != c.result {
			tr.t.Errorf("%s: sent again, the request has %+v, %v; want %s", c.id, r, err, c.result)
		}
		tr.check(c)
	}
}

// audit reads the store when the server has ended: each request has one run, which has ended without open questions,
// and the journals have the backend's answers.
func (tr *trial) audit() {
	cfg, err := config.Load(filepath.Join(tr.dir, "vmcp.yaml"))
	if err != nil {
		tr.t.Fatal(err)
	}
	s, _, err := sqlstore.Open(tr.t.Context(), cfg, sqlstore.How{})
	if err != nil {
		tr.t.Fatal(err)
	}
	defer s.Close()
	if due, _, err := s.Due(tr.t.Context(), 10); err != nil || len(due) > 0 {
		tr.t.Errorf("due are %q, %v; want none", due, err)
	}
	of, calls := map[string]*client{}, 0
	for _, c := range tr.runs {
		of[c.run] = c
	}
	for after, some := "", []durable.Summary(nil); ; {
		if some, after, err = s.List(tr.t.Context(), durable.Filter{After: after}); err != nil {
			tr.t.Fatal(err)
		}
		for _, one := range some {
			if of[one.ID] == nil {
				tr.t.Errorf("run %s of %s is no client's", one.ID, one.Tool)
			}
			delete(of, one.ID)
			r, entries, err := s.Get(tr.t.Context(), one.ID)
			if err != nil {
				tr.t.Fatal(err)
			}
			calls += tr.auditRun(r, entries)
		}
		if after == "" {
			break
		}
	}
	for id, c := range of {
		tr.t.Errorf("%s: the store has no run %s", c.id, id)
	}
	tr.t.Logf("%d answers of calls are in the journals", calls)
	for _, wrong := range tr.ledger.wrong {
		tr.t.Errorf("an idempotency key was used twice: %s", wrong)
	}
}

// auditRun checks an ended run, and counts the answers of calls.
func (tr *trial) auditRun(r durable.Run, entries []script.Entry) (calls int) {
	if r.State != durable.Done || r.Owner != "" || !r.Wake.IsZero() || len(r.Doubts) > 0 {
		tr.t.Errorf("run %s of %s is %s, owner %q, wakes at %s, doubts %q", r.ID, r.Tool, r.State, r.Owner, r.Wake, r.Doubts)
	}
	for _, q := range r.Questions {
		if q.Answer == nil {
			tr.t.Errorf("run %s of %s has ended with the open question %s", r.ID, r.Tool, q.Key)
		}
	}
	for _, e := range entries {
		if !e.Done {
			tr.t.Errorf("run %s of %s has ended and %s %s at %s has not", r.ID, r.Tool, e.Kind, e.Name, e.Key)
		}
		if tr.ledger.audit(tr, r, e) {
			calls++
		}
	}
	return calls
}

var did = regexp.MustCompile(`"did":"([^"]*)","ticket":"([^"]*)"`)

// audit compares an entry of the journal, if it is a call, with the ledger of the backend.
func (l *ledger) audit(tr *trial, r durable.Run, e script.Entry) (answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Failure != nil {
		if r.Tool != "tries" || e.Failure.Kind != "unknown" && e.Failure.Kind != "unavailable" {
			tr.t.Errorf("run %s of %s: %s at %s has failed: %+v", r.ID, r.Tool, e.Name, e.Key, e.Failure)
		}
		return false
	}
	if e.Kind != "call" || slices.Contains(kinds, e.Name) { // the calls of a script that was called are in the journal, too
		return false
	}
	var call thing
	m := did.FindSubmatch(e.Result)
	if err := json.Unmarshal(e.Args, &call); err != nil || m == nil || string(m[1]) != call.What || !slices.Contains(l.tickets[call.What], string(m[2])) {
		tr.t.Errorf("run %s of %s: %s%s at %s has %s, which no such call has returned", r.ID, r.Tool, e.Name, e.Args, e.Key, e.Result)
	}
	return true
}
