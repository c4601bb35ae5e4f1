//go:build unix

package sqlstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/vmcp-dev/vmcp/internal/postgres"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// lines is a log that several goroutines write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// openFaulty opens a store whose database fails; statements are given up after little more than a second.
func openFaulty(t *testing.T, url string, process bool, o durable.Options) (*sqlstore.Store, *lines) {
	t.Helper()
	log := &lines{}
	s, err := sqlstore.OpenPostgres(t.Context(), sqlstore.PostgresOptions{
		Options: sqlstore.Options{Options: o, Ring: ring(t, "a"), Encrypt: true, Log: slog.New(slog.NewTextHandler(log, nil))},
		URL:     url + "&statement_timeout=500", Process: process, MaxConnections: 8,
	})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s, log
}

func begun(key string) script.Entry {
	return script.Entry{Key: key, Kind: "call", Attempt: 1, Args: json.RawMessage(`{"key":"` + key + `"}`)}
}

func recorded(key string) script.Entry {
	e := begun(key)
	e.Done, e.Result = true, json.RawMessage(`"result of `+key+`"`)
	return e
}

// step makes one call of a run. It waits for a database that does not answer.
func step(t *testing.T, l durable.Lease, key string) {
	t.Helper()
	e := begun(key)
	for {
		err := l.Begin(t.Context(), e)
		if err == nil {
			break
		}
		if !errors.Is(err, durable.ErrUnavailable) {
			t.Errorf("Begin of %s: %v", key, err)
			return
		}
	}
	if err := l.Record(recorded(key)); err != nil {
		t.Errorf("Record of %s: %v", key, err)
	}
}

// whole checks that the database has a run, not damaged, with so many results in their order.
func whole(t *testing.T, s durable.Store, id string, state durable.State, n int) {
	t.Helper()
	r, entries, err := s.Get(t.Context(), id)
	if err != nil || r.State != state || len(entries) != n {
		t.Errorf("the run is %s with %d entries, %v; want %s with %d", r.State, len(entries), err, state, n)
		return
	}
	for i, e := range entries {
		if want := recorded(fmt.Sprint(i)); e.Key != want.Key || !e.Done || string(e.Result) != string(want.Result) {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
}

// copied is a copy of all tables of a schema, which a test puts back.
type copied struct{ db *postgres.DB }

var tables = []string{"programs", "runs", "entries", "questions", "outbox"}

func (c copied) take(t *testing.T) { c.each(t, `CREATE TABLE "copy_%[1]s" AS TABLE vmcp.%[1]s`) }
func (c copied) restore(t *testing.T) {
	c.each(t, `DELETE FROM vmcp.%[1]s`, `INSERT INTO vmcp.%[1]s TABLE "copy_%[1]s"`)
}

func (c copied) each(t *testing.T, statements ...string) {
	t.Helper()
	must(t, pgx.BeginFunc(t.Context(), c.db, func(tx pgx.Tx) error {
		for _, statement := range statements {
			for _, table := range tables {
				if _, err := tx.Exec(t.Context(), fmt.Sprintf(statement, table)); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// TestPostgresGoesBack: whatever the database has lost of a run, its living owner writes it again.
func TestPostgresGoesBack(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	question := durable.Question{Key: "0/q", Method: "elicitation/create", Params: json.RawMessage(`{}`)}
	type life struct {
		s *sqlstore.Store
		l durable.Lease
		c copied
	}
	run := durable.Run{Tool: "x", Dedupe: "k", Program: durable.Program{Main: "a.star", Files: map[string]string{"a.star": "def run(p): return 1\n"}}, Header: &header}
	for _, tt := range []struct {
		name string
		live func(t *testing.T, v *life)
		then func(t *testing.T, v *life)
	}{
		{"before the run began", func(t *testing.T, v *life) {
			v.c.take(t)
			l, err := v.s.Create(t.Context(), run, "me", []script.Entry{recorded("0")})
			must(t, err)
			v.l = l
		}, nil},
		{"before the run was acquired", func(t *testing.T, v *life) {
			r, _, err := v.s.Start(t.Context(), run)
			must(t, err)
			v.c.take(t)
			v.l, err = v.s.Acquire(t.Context(), r.ID, "me")
			must(t, err)
			step(t, v.l, "0")
		}, nil},
		{"before a call", func(t *testing.T, v *life) {
			l, err := v.s.Create(t.Context(), run, "me", nil)
			must(t, err)
			v.l = l
			v.c.take(t)
			step(t, v.l, "0")
		}, nil},
		{"before a question and its answer", func(t *testing.T, v *life) {
			l, err := v.s.Create(t.Context(), run, "me", []script.Entry{recorded("0")})
			must(t, err)
			v.l = l
			v.c.take(t)
			must(t, v.l.Ask(t.Context(), question))
			must(t, v.s.Answer(t.Context(), v.l.Run().ID, question.Key, json.RawMessage(`{"action":"accept"}`)))
			_, err = v.l.Answers(t.Context())
			must(t, err)
		}, func(t *testing.T, v *life) {
			if q, err := v.l.Answers(t.Context()); err != nil || len(q) != 1 || string(q[0].Answer) != `{"action":"accept"}` {
				t.Errorf("the questions are %v, %v", q, err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			admin, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL()})
			must(t, err)
			defer admin.Close()
			_, err = admin.Exec(t.Context(), `DROP SCHEMA IF EXISTS vmcp CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public`)
			must(t, err)
			s, log := openFaulty(t, server.URL(), false, durable.Options{Lease: time.Minute})
			v := &life{s: s, c: copied{admin}}
			tt.live(t, v)
			must(t, v.l.Begin(t.Context(), begun("1"))) // with the result of 0
			v.c.restore(t)
			must(t, v.l.Record(recorded("1")))
			step(t, v.l, "2")
			if tt.then != nil {
				tt.then(t, v)
			}
			must(t, v.l.End(t.Context(), durable.Outcome{State: durable.Done, Result: json.RawMessage(`1`)}))
			whole(t, s, v.l.Run().ID, durable.Done, 3)
			if n := log.count("went back"); n != 1 {
				t.Errorf("the log has %d lines of a database that went back, want 1", n)
			}
			if again, isNew, err := s.Start(t.Context(), run); err != nil || isNew || again.ID != v.l.Run().ID {
				t.Errorf("the same request: %s, new %t, %v", again.ID, isNew, err)
			}
		})
	}
}

// TestPostgresLosesAnEnd: an end that the database has lost is written again, before the lease is over that it still has.
func TestPostgresLosesAnEnd(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	for i, state := range []durable.State{durable.Done, durable.Waiting} {
		for _, keep := range []durable.Keep{durable.KeepFull, durable.KeepOutline, durable.KeepNone} {
			t.Run(fmt.Sprint(state, keep), func(t *testing.T) {
				admin, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL()})
				must(t, err)
				defer admin.Close()
				_, err = admin.Exec(t.Context(), `DROP SCHEMA IF EXISTS vmcp CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public`)
				must(t, err)
				s, _ := openFaulty(t, server.URL(), false, durable.Options{Lease: time.Minute, Renew: 50 * time.Millisecond, Keep: keep})
				l, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &header}, "me", nil)
				must(t, err)
				c := copied{admin}
				c.take(t)
				step(t, l, "0")
				o := durable.Outcome{State: state, Result: json.RawMessage(`1`)}
				if i == 1 {
					o = durable.Outcome{State: state, Questions: []durable.Question{{Key: "1/q", Method: "elicitation/create", Params: json.RawMessage(`{}`)}}}
				}
				must(t, l.End(t.Context(), o))
				want, entries, err := s.Get(t.Context(), l.Run().ID)
				must(t, err)
				changed := s.Changed()
				c.restore(t)
				got, again, err := s.Get(t.Context(), l.Run().ID)
				for ; err == nil && got.State != state; got, again, err = s.Get(t.Context(), l.Run().ID) {
					<-changed
					changed = s.Changed()
				}
				if d := (journal{got, again}).differs(journal{want, entries}); err != nil || d != "" {
					t.Errorf("%v\n%s", err, d)
				}
			})
		}
	}
}

// TestPostgresCrashes: the server is killed again and again beside living owners. No run is damaged, and none has lost a call,
// although commits vanish where they do not wait for the disk.
func TestPostgresCrashes(t *testing.T) {
	testmode.NeedThorough(t)
	for _, sync := range []struct {
		name    string
		process bool
	}{{"power", false}, {"process", true}} {
		t.Run(sync.name, func(t *testing.T) {
			server := runstest.Start(t)
			s, log := openFaulty(t, server.URL(), sync.process, durable.Options{Lease: time.Minute, Renew: 20 * time.Millisecond})
			live(t, s, func() {
				server.Signal(t, syscall.SIGKILL)
				server.Up(t)
			})
			t.Logf("%d runs were written again", log.count("went back"))
		})
	}
}

// live has runs that make calls, while fault is called some times, and checks them.
func live(t *testing.T, s *sqlstore.Store, fault func()) {
	t.Helper()
	const owners, faults = 6, 4
	stop := make(chan struct{})
	var ids sync.Map // id -> calls
	var all sync.WaitGroup
	for range owners {
		all.Go(func() {
			for {
				l, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &header}, "me", nil)
				for n := 0; err == nil; n++ {
					step(t, l, fmt.Sprint(n))
					select {
					case <-stop:
					default:
						if n < 40 {
							continue
						}
					}
					ids.Store(l.Run().ID, n+1)
					for l.End(t.Context(), durable.Outcome{State: durable.Done}) != nil {
						if t.Failed() {
							return
						}
					}
					break
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range faults {
		runs := 0
		for runs < 2*owners { // some begin, some end
			<-s.Changed()
			runs++
		}
		fault()
	}
	close(stop)
	all.Wait()
	for { // ends that were lost are found by the next renewal
		open, _, err := s.List(t.Context(), durable.Filter{States: []durable.State{durable.Running}})
		if errors.Is(err, durable.ErrUnavailable) {
			continue
		}
		must(t, err)
		known := 0
		for _, r := range open {
			if _, ok := ids.Load(r.ID); ok {
				known++
			}
		}
		if known == 0 {
			break
		}
		<-s.Changed()
	}
	ids.Range(func(id, n any) bool {
		whole(t, s, id.(string), durable.Done, n.(int))
		return true
	})
}

// TestPostgresStandbyTakesOver: an asynchronous standby that is behind becomes the primary.
func TestPostgresStandbyTakesOver(t *testing.T) {
	testmode.NeedThorough(t)
	primary := runstest.Start(t)
	link := primary.Through(t)
	s, log := openFaulty(t, link.URL(), false, durable.Options{Lease: time.Minute, Renew: 20 * time.Millisecond})
	before, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &header}, "me", nil)
	must(t, err)
	step(t, before, "0")
	standby := primary.Standby(t)
	standby.Down(t) // it has nothing of what follows
	step(t, before, "1")
	after, err := s.Create(t.Context(), durable.Run{Tool: "y", Header: &header}, "me", nil)
	must(t, err)
	step(t, after, "0")
	must(t, after.End(t.Context(), durable.Outcome{State: durable.Done}))
	primary.Signal(t, syscall.SIGKILL)
	standby.Up(t)
	standby.Promote(t)
	link.To(standby)
	link.Cut()
	primary.Up(t) // for its end
	step(t, before, "2")
	must(t, before.End(t.Context(), durable.Outcome{State: durable.Done}))
	whole(t, s, before.Run().ID, durable.Done, 3)
	for log.count("went back") < 2 {
		<-s.Changed()
	}
	for {
		if r, _, err := s.Get(t.Context(), after.Run().ID); err == nil && r.State == durable.Done {
			break
		}
		<-s.Changed()
	}
	whole(t, s, after.Run().ID, durable.Done, 1)
}

// TestPostgresHangs: a server that does not answer, and refuses nothing, is given up by each method. Then the owner goes on.
func TestPostgresHangs(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	s, log := openFaulty(t, server.URL(), false, durable.Options{Lease: time.Minute})
	l, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &header}, "me", nil)
	must(t, err)
	step(t, l, "0")
	must(t, l.Begin(t.Context(), begun("1")))
	server.Signal(t, syscall.SIGSTOP)
	ctx := context.Background() // without a deadline
	var all sync.WaitGroup
	for name, ask := range map[string]func() error{
		"Start":   func() error { _, _, err := s.Start(ctx, durable.Run{Tool: "x"}); return err },
		"Create":  func() error { _, err := s.Create(ctx, durable.Run{Tool: "x"}, "me", nil); return err },
		"Acquire": func() error { _, err := s.Acquire(ctx, durable.NewID(), "me"); return err },
		"Due":     func() error { _, _, err := s.Due(ctx, 1); return err },
		"Get":     func() error { _, _, err := s.Get(ctx, l.Run().ID); return err },
		"Begin":   func() error { return l.Begin(ctx, begun("2")) },
		"Ask":     func() error { return l.Ask(ctx, durable.Question{Key: "1/q"}) },
		"Ping":    func() error { return s.Ping(ctx) },
	} {
		all.Go(func() {
			if err := ask(); !errors.Is(err, durable.ErrUnavailable) {
				t.Errorf("%s of a server that was stopped: %v", name, err)
			}
		})
	}
	all.Wait()
	server.Signal(t, syscall.SIGCONT)
	must(t, l.Record(recorded("1")))
	step(t, l, "2")
	must(t, s.Ping(ctx))
	must(t, l.End(ctx, durable.Outcome{State: durable.Done}))
	whole(t, s, l.Run().ID, durable.Done, 3)
	if n, m := log.count("level=ERROR"), log.count("is written again"); n != 1 || m != 1 {
		t.Errorf("the log has %d lines that the store cannot be written, and %d that it is again; want one each", n, m)
	}
}

// TestPostgresDeliversLate: a write that was given up and arrives later, behind others or not, leaves no entry that its owner
// does not have.
func TestPostgresDeliversLate(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	link := server.Through(t)
	s, _ := openFaulty(t, link.URL(), false, durable.Options{Lease: time.Minute, Renew: -1})
	other, _ := openFaulty(t, server.URL(), false, durable.Options{})
	for i := range 4 {
		l, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &header}, "me", nil)
		must(t, err)
		step(t, l, "0")
		link.Hold()
		if err := l.Begin(t.Context(), begun("late")); !errors.Is(err, durable.ErrUnavailable) {
			t.Fatalf("Begin over a link that delivers nothing: %v", err)
		}
		if i%2 == 0 {
			step(t, l, "1")
			must(t, l.Begin(t.Context(), begun("2")))
		}
		link.Deliver()
		for range 50 { // until it has arrived
			must(t, other.Ping(t.Context()))
		}
		if i%2 == 0 {
			must(t, l.Record(recorded("2")))
		} else {
			step(t, l, "1")
			step(t, l, "2")
		}
		must(t, l.End(t.Context(), durable.Outcome{State: durable.Done}))
		whole(t, other, l.Run().ID, durable.Done, 3)
	}
}

// TestPostgresIsAwayForLongerThanALease: an owner that has received answers during the outage writes them before the run is
// acquired, and other processes leave it the time.
func TestPostgresIsAwayForLongerThanALease(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	s, _ := openFaulty(t, server.URL(), false, durable.Options{Lease: 20 * time.Millisecond, Renew: -1})
	other, _ := openFaulty(t, server.URL(), false, durable.Options{Lease: time.Minute})
	l, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &header}, "me", nil)
	must(t, err)
	id := l.Run().ID
	must(t, l.Begin(t.Context(), begun("0")))
	server.Down(t)
	must(t, l.Record(recorded("0")))
	if err := l.End(t.Context(), durable.Outcome{State: durable.Paused}); !errors.Is(err, durable.ErrUnavailable) {
		t.Fatalf("End without the database: %v", err)
	}
	if err := other.Ping(t.Context()); !errors.Is(err, durable.ErrUnavailable) {
		t.Fatalf("Ping without the database: %v", err)
	}
	server.Up(t)
	must(t, other.Ping(t.Context()))
	if _, err := other.Acquire(t.Context(), id, "other"); !errors.Is(err, durable.ErrBusy) {
		t.Errorf("another process acquires the run right after the outage: %v", err)
	}
	l, err = s.Acquire(t.Context(), id, "me")
	must(t, err)
	whole(t, s, id, durable.Running, 1)
	must(t, l.End(t.Context(), durable.Outcome{State: durable.Done}))
}

// TestPostgresPrunesBesideAStart: the program of a run that begins while the last run with it is pruned stays.
func TestPostgresPrunesBesideAStart(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	s := openPostgres(t, server.URL(), "vmcp", durable.Options{})
	admin, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL()})
	must(t, err)
	defer admin.Close()
	run := durable.Run{ID: durable.NewID(), Tool: "x", Header: &header, Program: durable.Program{Main: "a.star", Files: map[string]string{"a.star": "def run(p): return 1\n"}}}
	before := run
	before.ID = durable.NewID()
	_, _, err = s.Start(t.Context(), before)
	must(t, err)
	_, err = admin.Exec(t.Context(), "DELETE FROM vmcp.runs")
	must(t, err)
	var all sync.WaitGroup
	pruned := make(chan struct{})
	must(t, pgx.BeginFunc(t.Context(), admin, func(tx pgx.Tx) error {
		waiting := func(n int) bool {
			var found int
			must(t, tx.QueryRow(t.Context(), "SELECT COUNT(*) FROM pg_locks WHERE NOT granted").Scan(&found))
			return found >= n
		}
		_, err := tx.Exec(t.Context(), "LOCK TABLE vmcp.runs IN EXCLUSIVE MODE")
		must(t, err)
		all.Go(func() { // it has found the program, and waits
			if _, _, err := s.Start(t.Context(), run); err != nil {
				t.Error(err)
			}
		})
		for !waiting(1) {
		}
		all.Go(func() {
			defer close(pruned)
			if err := sqlstore.PrunePrograms(t, s); err != nil {
				t.Error(err)
			}
		})
		for !waiting(2) {
			select {
			case <-pruned:
				return nil
			default:
			}
		}
		return nil
	}))
	all.Wait()
	if _, _, err := s.Get(t.Context(), run.ID); err != nil {
		t.Errorf("the run that has begun meanwhile: %v", err)
	}
}
