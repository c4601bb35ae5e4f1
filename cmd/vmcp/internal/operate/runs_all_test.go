package operate_test

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// TestAll: one command changes all runs that its flags select, and none that they do not.
func TestAll(t *testing.T) {
	inDoubt, asks := durable.Outcome{State: durable.Doubt, Doubts: []string{"1"}}, durable.Outcome{State: durable.Waiting, Questions: []durable.Question{form}}
	for _, tt := range []struct {
		name    string
		args    string
		changed int
		want    map[string]durable.State // of the runs that differ from before
	}{
		{"a tool", "resolve --all --tool onboard --repeat", 2, map[string]durable.State{"anna": durable.Running, "ben": durable.Running}},
		{"a principal", "resolve --all --principal ben --done {}", 1, map[string]durable.State{"ben": durable.Running}},
		{"all in doubt", "resolve --all --failed declined", 3, map[string]durable.State{"anna": durable.Running, "ben": durable.Running, "pay": durable.Running}},
		{"nothing so old", "resolve --all --before 1h --repeat", 0, nil},
		{"what waits", "cancel --all --state waiting", 1, map[string]durable.State{"asks": durable.Cancelled}},
		{"what is so old", "cancel --all --before 0s --tool pay", 1, map[string]durable.State{"pay": durable.Cancelled}},
		{"all", "cancel --all", 4, map[string]durable.State{"anna": durable.Cancelled, "ben": durable.Cancelled, "pay": durable.Cancelled, "asks": durable.Cancelled}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newShell(t)
			store := s.store()
			ids := map[string]string{
				"anna": begin(s, store, inDoubt, done, lost), "ben": beginOf(s, store, "onboard", "ben", inDoubt, done, lost), "pay": beginOf(s, store, "pay", "anna", inDoubt, done, lost),
				"asks": begin(s, store, asks, done), "done": begin(s, store, durable.Outcome{State: durable.Done, Result: json.RawMessage(`{"content":[]}`)}, done),
			}
			want := map[string]durable.State{"anna": durable.Doubt, "ben": durable.Doubt, "pay": durable.Doubt, "asks": durable.Waiting, "done": durable.Done}
			maps.Copy(want, tt.want)
			var got struct {
				Changed int
				Failed  []any
			}
			s.json(&got, append(strings.Fields(tt.args), "--yes")...)
			have := map[string]durable.State{}
			for name, id := range ids {
				r, _, err := store.Get(t.Context(), id)
				if have[name] = r.State; err != nil {
					t.Error(err)
				}
			}
			if got.Changed != tt.changed || len(got.Failed) > 0 || !maps.Equal(have, want) {
				t.Errorf("%s: %+v, %v\nwant %d, %v", tt.args, got, have, tt.changed, want)
			}
		})
	}
}

// TestAllAsks: without --yes a person is asked, who is told how many runs are meant; without a terminal that is wrong usage.
func TestAllAsks(t *testing.T) {
	s := newShell(t)
	store := s.store()
	id := begin(s, store, durable.Outcome{State: durable.Doubt, Doubts: []string{"1"}}, done, lost)
	s.fails("usage: --all: asks first", "cancel", "--all")
	s.fails("usage: --tool: only with --all", "cancel", "--tool", "onboard", id)
	s.fails("usage: --state: want running", "cancel", "--all", "--yes", "--state", "done")
	s.fails("unknown command", "resolve", "--all", "--repeat", id)
	s.terminal = true
	for _, s.answer = range []string{"no\n", ""} {
		s.fails("nothing is changed", "cancel", "--all")
	}
	if r, _, err := store.Get(t.Context(), id); err != nil || r.State != durable.Doubt {
		t.Errorf("without agreement the run is %s, %v", r.State, err)
	}
	s.answer = "y\n"
	if out, err := s.run("cancel", "--all"); err != nil || out != "changed 1\n" || !strings.Contains(s.told.String(), "1 run: 1 of onboard\ncancel these runs? [y/N]") {
		t.Errorf("cancel --all: %q, %v, %q", out, err, s.told.String())
	}
}

// TestAllFails: runs that cannot be changed are named, and the others are changed.
func TestAllFails(t *testing.T) {
	s := newShell(t)
	store := s.store()
	begin(s, store, durable.Outcome{State: durable.Doubt, Doubts: []string{"1"}}, done, lost)
	odd := begin(s, store, durable.Outcome{State: durable.Doubt, Doubts: []string{"7"}}, done, lost) // there is no such call
	out, err := s.run("resolve", "--all", "--yes", "--repeat")
	if !errors.Is(err, errFound) || out != "changed 1\n" || !strings.Contains(s.told.String(), odd+": ") {
		t.Errorf("resolve --all: %q, %v, %q", out, err, s.told.String())
	}
}
