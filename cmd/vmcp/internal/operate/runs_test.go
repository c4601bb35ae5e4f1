package operate_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/cli/jsonformtest"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/operate"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// shell runs vmcp runs with a configuration in its own folder.
type shell struct {
	*testing.T
	file     string
	terminal bool
	answer   string // what a person types
	told     strings.Builder
}

func newShell(t *testing.T) *shell {
	s := &shell{T: t, file: filepath.Join(t.TempDir(), "vmcp.yaml")}
	if err := os.WriteFile(s.file, []byte("sessionStorage: {provider: sqlite, path: runs.db, sync: process}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shell) run(args ...string) (string, error) {
	var out bytes.Buffer
	same := func(text string) string { return text }
	c := operate.RunsCommand(operate.RunsEnv{
		In: strings.NewReader(s.answer), Out: &out, Terminal: s.terminal, DefaultFile: s.file, Load: config.Load, Cell: same, Text: same,
		Tell: func(format string, args ...any) { fmt.Fprintf(&s.told, format+"\n", args...) }, Found: errFound,
		JSON:   func(v any) error { return json.NewEncoder(&out).Encode(v) },
		Output: func(c *cobra.Command) *string { return c.Flags().StringP("output", "o", "text", "") },
	})
	sub, _, _ := c.Find(args) // an unknown command fails below
	c.SetArgs(args)
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(s.Context())
	if err == nil && slices.Contains(args, "json") {
		if err := jsonformtest.Check(sub.Long, out.Bytes()); err != nil {
			s.Errorf("runs %v: %v\n%s", args, err, &out)
		}
	}
	var hint *cli.Hint
	switch {
	case errors.As(err, new(cli.Error)):
		err = fmt.Errorf("usage: %w", err)
	case errors.As(err, &hint):
		err = fmt.Errorf("%w: %s", err, hint.Hint())
	}
	return out.String(), err
}

// json runs a command and decodes its JSON.
func (s *shell) json(v any, args ...string) {
	s.Helper()
	out, err := s.run(append(args, "-o", "json")...)
	if err != nil {
		s.Fatalf("runs %v: %v", args, err)
	}
	d := json.NewDecoder(strings.NewReader(out))
	if err := d.Decode(v); err != nil {
		s.Fatalf("runs %v: %v\n%s", args, err, out)
	}
}

func (s *shell) fails(want string, args ...string) {
	s.Helper()
	if out, err := s.run(args...); err == nil || !strings.Contains(err.Error(), want) {
		s.Errorf("runs %v: %q, %v; want %q", args, out, err, want)
	}
}

// store opens the store as a server does.
func (s *shell) store() durable.Store {
	s.Helper()
	store, err := sqlstore.OpenSQLite(s.Context(), sqlstore.SQLiteOptions{Path: filepath.Join(filepath.Dir(s.file), "runs.db"), Process: true})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { store.Close() })
	return store
}

var errFound = errors.New("found")

// begin stores a run with a call, and an outcome.
func begin(s *shell, store durable.Store, o durable.Outcome, entries ...script.Entry) string {
	s.Helper()
	return beginOf(s, store, "onboard", "anna", o, entries...)
}

// beginOf is begin for a tool and a principal.
func beginOf(s *shell, store durable.Store, tool, principal string, o durable.Outcome, entries ...script.Entry) string {
	s.Helper()
	l, err := store.Create(s.Context(), durable.Run{
		Tool: tool, Principal: principal, Args: json.RawMessage(`{"name":"Zoë"}`), Limits: json.RawMessage(`{"limits":{"calls":7},"onDoubt":"wait"}`),
		Program: durable.Program{Main: "onboard.star", Files: map[string]string{"onboard.star": "def run(p):\n    pass\n"}, Engine: 1, Hash: "h"},
	}, "replica", entries)
	if err != nil {
		s.Fatal(err)
	}
	if err := l.End(s.Context(), o); err != nil {
		s.Fatal(err)
	}
	return l.Run().ID
}

var (
	began = time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)
	done  = script.Entry{Key: "0", Kind: "call", Name: "crm.create", Args: json.RawMessage(`{"a":1}`), Done: true, Attempt: 1, Began: began, Ended: began.Add(time.Second), Result: json.RawMessage(`{"content":[]}`)}
	lost  = script.Entry{Key: "1", Kind: "call", Name: "billing.charge", Args: json.RawMessage(`{"amount":7}`), Attempt: 1, Began: began}
	no    = script.Entry{Key: "2", Kind: "call", Name: "mail.send", Done: true, Failure: &script.Failure{Kind: "tool", Message: "no such address"}, Repeatable: true}

	form = durable.Question{Key: "3", Method: "elicitation/create", Params: json.RawMessage(`{"message":"Ship it?","requestedSchema":{"type":"object","properties":{"ship":{"type":"boolean"}},"required":["ship"]}}`)}
)

type listing struct {
	Runs []map[string]any
	Next *string
}

func TestListAndShow(t *testing.T) {
	s := newShell(t)
	store := s.store()
	ended := begin(s, store, durable.Outcome{State: durable.Done, Result: json.RawMessage(`{"content":[{"type":"text","text":"<ok>"}]}`)}, done)
	waiting := begin(s, store, durable.Outcome{State: durable.Waiting, Questions: []durable.Question{form}, Wake: began.AddDate(1, 0, 0)}, done, no)
	doubt := begin(s, store, durable.Outcome{State: durable.Doubt, Doubts: []string{"1"}, Error: "in doubt"}, done, lost)

	var all listing
	s.json(&all, "list")
	if len(all.Runs) != 3 || all.Next == nil || *all.Next != "" {
		t.Fatalf("list: %+v", all)
	}
	first := all.Runs[0]
	keys := []string{"id", "tool", "state", "principal", "created", "updated", "questions", "doubts", "entries", "error"}
	for _, k := range keys {
		if _, ok := first[k]; !ok {
			t.Errorf("list has no %q: %v", k, first)
		}
	}
	if first["id"] != doubt || first["doubts"] != 1.0 || first["entries"] != 2.0 || len(first) != len(keys) {
		t.Errorf("list begins with %v, want %s and no wake", first, doubt)
	}
	if all.Runs[1]["wake"] == nil || all.Runs[1]["questions"] != 1.0 {
		t.Errorf("the run that waits is listed as %v", all.Runs[1])
	}
	var page listing
	s.json(&page, "list", "--limit", "2")
	s.json(&page, "list", "--limit", "2", "--after", *page.Next)
	if len(page.Runs) != 1 || page.Runs[0]["id"] != ended || *page.Next != "" {
		t.Errorf("the second page is %+v", page)
	}
	var some listing
	s.json(&some, "list", "--state", "waiting,done", "--tool", "onboard", "--since", "1h", "--sealed-by", "file")
	if len(some.Runs) != 2 {
		t.Errorf("list of two states: %+v", some)
	}

	var shown struct {
		State, Owner, Program, Error string
		Engine                       int
		Arguments, Result            json.RawMessage
		Entries                      []struct{ Key, Kind, Name, State string }
		Questions, Doubts            []struct{ Key, Name, Method string }
	}
	s.json(&shown, "show", doubt)
	states := []string{}
	for _, e := range shown.Entries {
		states = append(states, e.Key+" "+e.State)
	}
	if !slices.Equal(states, []string{"0 done", "1 doubt"}) || len(shown.Doubts) != 1 || shown.Doubts[0].Name != "billing.charge" || shown.Program != "h" || shown.Engine != 1 || string(shown.Arguments) != `{"name":"Zoë"}` {
		t.Errorf("show: %+v", shown)
	}
	for id, want := range map[string][]string{
		doubt:   {"onboard  doubt  anna", "call billing.charge", "in doubt", "vmcp runs resolve " + doubt + " 1 --done"},
		waiting: {"no such address", "open question 3", "Ship it?", "vmcp runs answer " + waiting + " 3 --action"},
		ended:   {"crm.create", "1s", "<ok>"},
	} {
		out, err := s.run("show", id)
		for _, w := range want {
			if err != nil || !strings.Contains(out, w) {
				t.Errorf("show %s: %v, want %q in\n%s", id, err, w, out)
			}
		}
	}
	var export struct {
		ID, Tool          string
		Source            map[string]string
		Limits, Arguments json.RawMessage
		Entries           []json.RawMessage
		Result            json.RawMessage
	}
	s.json(&export, "export", ended)
	if export.ID != ended || export.Source["onboard.star"] == "" || string(export.Limits) != `{"calls":7}` || len(export.Entries) != 1 || export.Result == nil {
		t.Errorf("export: %+v", export)
	}
}

func TestAnswer(t *testing.T) {
	s := newShell(t)
	store := s.store()
	id := begin(s, store, durable.Outcome{State: durable.Waiting, Questions: []durable.Question{form}}, done)
	s.fails("usage", "answer", id, "--action", "yes")
	s.fails("usage", "answer", id, "--action", "decline", "--content", "{}")
	s.fails("usage", "answer", id, "--action", "accept", "--content", "[1]")
	s.fails("does not fit", "answer", id, "--action", "accept", "--content", `{"ship": "yes"}`)
	s.fails("--content does not fit the question 3", "answer", id, "--action", "accept")
	s.fails("no such open question 4", "answer", id, "4", "--action", "decline")
	s.fails("no such run", "answer", durable.NewID(), "--action", "decline")
	var after struct{ ID, State string }
	s.json(&after, "answer", id, "--action", "accept", "--content", `{"ship": true}`)
	if after.ID != id || after.State != "waiting" {
		t.Errorf("answer: %+v", after)
	}
	s.fails("has an answer already", "answer", id, "3", "--action", "decline")
	s.fails("no such open question", "answer", id, "--action", "decline")
	r, _, err := store.Get(t.Context(), id)
	if err != nil || string(r.Questions[0].Answer) != `{"action":"accept","content":{"ship":true}}` {
		t.Errorf("the answer is %s, %v", r.Questions[0].Answer, err)
	}
	other := form
	other.Key, other.Method = "5", "sampling/createMessage"
	id = begin(s, store, durable.Outcome{State: durable.Waiting, Questions: []durable.Question{form, other}}, done)
	s.fails("2 questions are open: name one of them, 3, 5", "answer", id, "--action", "decline")
	s.fails("only the client", "answer", id, "5", "--action", "decline")
}

func TestResolveResumeCancel(t *testing.T) {
	s := newShell(t)
	store := s.store()
	doubt := durable.Outcome{State: durable.Doubt, Doubts: []string{"1"}}
	for _, how := range [][]string{{"--done", `{"id": 7}`}, {"--failed", "it did not"}, {"--repeat"}} {
		id := begin(s, store, doubt, done, lost)
		var after struct{ ID, State string }
		s.json(&after, append([]string{"resolve", id}, how...)...)
		if after.State != "running" {
			t.Errorf("resolve %v: %+v", how, after)
		}
		s.fails("no such call in doubt", append([]string{"resolve", id, "1"}, how...)...)
	}
	id := begin(s, store, doubt, done, lost)
	s.fails("usage", "resolve", id, "--done", "{")
	s.fails("none of the others", "resolve", id, "--done", "1", "--repeat")
	s.fails("at least one", "resolve", id)
	s.fails("--failed: want", "resolve", id, "--failed", " ")
	s.fails("--repeat: takes no value", "resolve", id, "--repeat=false")
	s.fails("no such call in doubt", "resolve", id, "0", "--repeat")

	paused := begin(s, store, durable.Outcome{State: durable.Paused}, done)
	var after struct{ ID, State string }
	if s.json(&after, "resume", paused); after.State != "running" {
		t.Errorf("resume: %+v", after)
	}
	if s.json(&after, "cancel", paused, "--reason", "wrong customer"); after.State != "cancelled" {
		t.Errorf("cancel: %+v", after)
	}
	s.fails("the run has ended", "cancel", paused)
	s.fails("the run has ended", "resume", paused)
	s.fails("the run has ended", "answer", paused, "--action", "decline")
	if out, err := s.run("show", paused); err != nil || !strings.Contains(out, "wrong customer") {
		t.Errorf("show: %v\n%s", err, out)
	}
}

func TestPrune(t *testing.T) {
	s := newShell(t)
	store := s.store()
	for range 3 {
		begin(s, store, durable.Outcome{State: durable.Done, Result: json.RawMessage(`{}`)})
	}
	begin(s, store, durable.Outcome{State: durable.Failed})
	open := begin(s, store, durable.Outcome{State: durable.Paused})
	var pruned struct{ Pruned int }
	for _, tt := range []struct {
		args []string
		want int
	}{
		{nil, 0}, {[]string{"--before", "0s", "--principal", "bert"}, 0}, {[]string{"--before", "0s", "--state", "failed"}, 1},
		{[]string{"--before", "0s"}, 3}, {[]string{"--before", "0s"}, 0},
	} {
		if s.json(&pruned, append([]string{"prune"}, tt.args...)...); pruned.Pruned != tt.want {
			t.Errorf("prune %v: %d, want %d", tt.args, pruned.Pruned, tt.want)
		}
	}
	s.fails("not final", "prune", "--state", "waiting")
	s.fails("want how long ago", "prune", "--before", "yesterday")
	if _, err := s.run("show", open); err != nil {
		t.Error(err)
	}
}

// It counts what each key seals, and lists keys that are no longer configured last.
func TestKeys(t *testing.T) {
	s := newShell(t)
	begin(s, s.store(), durable.Outcome{State: durable.Done})
	type key struct {
		ID                     string
		Configured, Seals      bool
		Runs, Sessions, Logins int
	}
	var got struct{ Keys []key }
	s.json(&got, "keys")
	if want := []key{{"file", true, true, 1, 0, 0}}; !slices.Equal(got.Keys, want) {
		t.Errorf("keys = %+v, want %+v", got.Keys, want)
	}
	t.Setenv("TEST_RUNS_KEY", base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err := os.WriteFile(s.file, []byte("sessionStorage: {provider: sqlite, path: runs.db, keys: [{id: new, env: TEST_RUNS_KEY}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.json(&got, "keys")
	if want := []key{{"new", true, true, 0, 0, 0}, {"file", false, false, 1, 0, 0}}; !slices.Equal(got.Keys, want) {
		t.Errorf("keys with another one = %+v, want %+v", got.Keys, want)
	}
	if out, err := s.run("keys"); err != nil || !strings.Contains(out, "seals") || !strings.Contains(out, "not configured") {
		t.Errorf("keys: %s, %v", out, err)
	}
}

func TestWithoutStore(t *testing.T) {
	s := newShell(t)
	s.fails("runs.db", "list")
	s.fails("unknown command", "lsit")
	if err := os.WriteFile(s.file, []byte("name: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.fails("set sessionStorage.provider", "list")
}
