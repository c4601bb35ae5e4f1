//go:build unix

package sqlstore_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/postgres"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// schemas numbers the schemas: each test has its own.
var schemas atomic.Int64

func openPostgres(t *testing.T, url, schema string, o durable.Options) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.OpenPostgres(t.Context(), sqlstore.PostgresOptions{
		Options: sqlstore.Options{Options: o, Ring: ring(t, "a"), Encrypt: true}, URL: url, Schema: schema, MaxConnections: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestPostgres(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	runstest.Test(t, func(*testing.T) runstest.Open {
		schema := fmt.Sprintf("s%d", schemas.Add(1))
		return func(t *testing.T, o durable.Options) durable.Store {
			return openPostgres(t, server.URL(), schema, o)
		}
	})
}

// TestPostgresLooksUpDueRunsByIndex: a poll beside thousands of runs that wait reads a few pages, and no row that it drops.
func TestPostgresLooksUpDueRunsByIndex(t *testing.T) {
	testmode.NeedThorough(t)
	s := openPostgres(t, runstest.Start(t).URL(), "vmcp", durable.Options{})
	waitingRuns(t, s, 6000)
	plan := sqlstore.ExplainDue(t, s, "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF)", 1)
	for _, want := range []string{"runs_due", "runs_expires"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the index %s is not used:\n%s", want, plan)
		}
	}
	if strings.Contains(plan, "Rows Removed by Filter") || strings.Contains(plan, "Seq Scan") {
		t.Errorf("runs that are not due are read:\n%s", plan)
	}
	read := 0
	for _, m := range regexp.MustCompile(`shared (?:hit=(\d+))? ?(?:read=(\d+))?`).FindAllStringSubmatch(plan, 1) {
		for _, n := range m[1:] {
			pages, _ := strconv.Atoi(n) // "" where there were none
			read += pages
		}
	}
	if read == 0 || read > 50 {
		t.Errorf("a poll beside 6,000 waiting runs reads %d pages, want 1 to 50:\n%s", read, plan)
	}
	if due, _, err := s.Due(t.Context(), 10); err != nil || len(due) != 0 {
		t.Errorf("Due: %v, %v, want none", due, err)
	}
}

// A schema belongs to one server: another server is refused until an operator deletes the row of the first. Programs without
// a server name, such as the command vmcp runs, are not refused.
func TestPostgresOfOneServer(t *testing.T) {
	testmode.NeedThorough(t)
	pg := runstest.Start(t)
	open := func(schema, server string) error {
		s, err := sqlstore.OpenPostgres(t.Context(), sqlstore.PostgresOptions{
			Options: sqlstore.Options{Ring: ring(t, "a")}, URL: pg.URL(), Schema: schema, MaxConnections: 2, Server: server,
		})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	must(t, open("one", "")) // as an earlier program has left it
	var all sync.WaitGroup
	for range 4 { // replicas of one server, at once
		all.Go(func() {
			if err := open("one", "team/a"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	must(t, open("one", ""))
	must(t, open("two", "team/b"))
	for range 2 {
		err := open("one", "team/b")
		if err == nil || errors.Is(err, durable.ErrUnavailable) || !strings.Contains(err.Error(), "the schema one of PostgreSQL at ") || !strings.Contains(err.Error(), " has the runs of the server team/a since 20") ||
			!strings.Contains(err.Error(), "Give team/b another schema; or, if team/a will not run again and team/b is to take over its sessions and runs, run: DELETE FROM \"one\".served") {
			t.Errorf("another server in the schema: %v", err)
		}
	}
	db, err := postgres.Open(t.Context(), postgres.Options{URL: pg.URL()})
	must(t, err)
	defer db.Close()
	_, err = db.Exec(t.Context(), `DELETE FROM "one".served`)
	must(t, err)
	must(t, open("one", "team/b"))
	if err := open("one", "team/a"); err == nil {
		t.Error("the former server of the schema is accepted")
	}
}

// A database that is restarted in the middle of a run stops the run before its next effect; afterwards
// the same owner continues it.
func TestPostgresRestarts(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	s := openPostgres(t, server.URL(), "vmcp", durable.Options{Lease: time.Minute, Renew: 50 * time.Millisecond})
	l, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &header}, "me", nil)
	must(t, err)
	must(t, l.Begin(t.Context(), script.Entry{Key: "0", Kind: "call", Attempt: 1}))
	must(t, l.Record(script.Entry{Key: "0", Kind: "call", Attempt: 1, Done: true, Result: []byte(`1`)}))
	server.Down(t)
	err = l.Begin(t.Context(), script.Entry{Key: "1", Kind: "call", Attempt: 1})
	if !errors.Is(err, durable.ErrUnavailable) {
		t.Fatalf("Begin without the database: %v", err)
	}
	must(t, l.Record(script.Entry{Key: "2", Kind: "call", Done: true, Result: []byte(`2`)}))
	if err := s.Ping(t.Context()); !errors.Is(err, durable.ErrUnavailable) {
		t.Errorf("Ping without the database: %v", err)
	}
	server.Up(t)
	must(t, l.Begin(t.Context(), script.Entry{Key: "3", Kind: "call", Attempt: 1}))
	must(t, l.End(t.Context(), durable.Outcome{State: durable.Paused}))
	_, entries, err := s.Get(t.Context(), l.Run().ID)
	must(t, err)
	keys := ""
	for _, e := range entries {
		keys += e.Key
	}
	if keys != "023" {
		t.Errorf("entries %q, want 023: the recorded entries, and not the one that could not be begun", keys)
	}
	// The end cannot be written: the recorded entries are, as soon as the database answers, and the run is due.
	l, err = s.Acquire(t.Context(), l.Run().ID, "me")
	must(t, err)
	server.Down(t)
	must(t, l.Record(script.Entry{Key: "4", Kind: "call", Done: true, Result: []byte(`4`)}))
	if err := l.End(t.Context(), durable.Outcome{State: durable.Paused}); !errors.Is(err, durable.ErrUnavailable) {
		t.Fatalf("End without the database: %v", err)
	}
	changed := s.Changed()
	server.Up(t)
	for due := []string(nil); len(due) == 0; changed = s.Changed() {
		<-changed
		due, _, err = s.Due(t.Context(), 10)
		must(t, err)
	}
	if _, entries, err = s.Get(t.Context(), l.Run().ID); err != nil || len(entries) != 4 || entries[2].Key+entries[3].Key != "34" && entries[2].Key+entries[3].Key != "43" {
		t.Errorf("entries %+v, %v: want that of 4, too", entries, err)
	}
	// Connections that broke while idle: the next statement uses a new one.
	server.Down(t)
	server.Up(t)
	if _, err := s.Acquire(t.Context(), l.Run().ID, "me"); err != nil {
		t.Errorf("Acquire after the connections broke: %v", err)
	}
}

// TestPostgresEndsAllConnections: after the database has ended every connection of the pool at once, the next statement
// and the next batch of each of several runs still go through.
func TestPostgresEndsAllConnections(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	s := openPostgres(t, server.URL(), "vmcp", durable.Options{})
	admin, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL(), MaxConnections: 1})
	must(t, err)
	t.Cleanup(admin.Close)
	for round := range 5 {
		var wg sync.WaitGroup
		leases := make(chan durable.Lease, 12)
		for range cap(leases) {
			wg.Go(func() {
				l, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &header}, "me", nil)
				if err != nil {
					t.Error(err)
					return
				}
				leases <- l
			})
		}
		wg.Wait()
		close(leases)
		_, err := admin.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
		must(t, err)
		for l := range leases {
			if err := l.Begin(t.Context(), script.Entry{Key: "0", Kind: "call", Attempt: 1}); err != nil {
				t.Errorf("round %d: Begin: %v", round, err)
			}
			if err := l.End(t.Context(), durable.Outcome{State: durable.Done}); err != nil {
				t.Errorf("round %d: End: %v", round, err)
			}
		}
	}
}

// Two processes that open an empty database at the same time both create its tables.
func TestPostgresOpenedAtOnce(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := sqlstore.OpenPostgres(t.Context(), sqlstore.PostgresOptions{Options: sqlstore.Options{Ring: ring(t, "a")}, URL: server.URL(), MaxConnections: 2})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
}
