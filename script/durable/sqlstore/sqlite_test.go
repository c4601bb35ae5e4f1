package sqlstore_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// besides opens a file first as the process that serves it, and then with Beside, as other processes do.
func besides(path string) runstest.Open {
	opened := false
	return func(t *testing.T, o durable.Options) durable.Store {
		t.Helper()
		s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Options: sqlstore.Options{Options: o, Encrypt: opened}, Path: path, Beside: opened, Process: true, Poll: 5 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		opened = true
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
}

func TestSQLite(t *testing.T) {
	testmode.Parallel(t)
	runstest.Test(t, func(t *testing.T) runstest.Open { return besides(filepath.Join(t.TempDir(), "a b?%#.db")) })
}

// waitingRuns fills a store with runs that wait, some until a time and some without, and expire in a day.
func waitingRuns(t *testing.T, s *sqlstore.Store, n int) {
	t.Helper()
	later := time.Now().Add(24 * time.Hour)
	l, err := s.Create(t.Context(), durable.Run{Tool: "x", Header: &script.Header{Program: "p"}, Expires: later}, "me", nil)
	if err == nil {
		err = l.End(t.Context(), durable.Outcome{State: durable.Waiting})
	}
	if err != nil {
		t.Fatal(err)
	}
	sqlstore.Multiply(t, s, n, later)
}

// TestSQLiteLooksUpDueRunsByIndex: as TestPostgresLooksUpDueRunsByIndex, by the plan.
func TestSQLiteLooksUpDueRunsByIndex(t *testing.T) {
	s := besides(filepath.Join(t.TempDir(), "runs.db"))(t, durable.Options{}).(*sqlstore.Store)
	waitingRuns(t, s, 1000)
	plan := sqlstore.ExplainDue(t, s, "EXPLAIN QUERY PLAN", 4)
	for _, want := range []string{"USING INDEX runs_due (wake>? AND wake<?)", "USING INDEX runs_expires (expires>? AND expires<?)", "USING INDEX runs_due (wake>?)", "USING INDEX runs_expires (expires>?)"} {
		if !strings.Contains(plan, want) {
			t.Errorf("want %s:\n%s", want, plan)
		}
	}
	if due, _, err := s.Due(t.Context(), 10); err != nil || len(due) != 0 {
		t.Errorf("Due: %v, %v, want none", due, err)
	}
}

func ring(t testing.TB, ids ...string) *durable.Ring {
	t.Helper()
	var keys []durable.Key
	for _, id := range ids {
		keys = append(keys, durable.Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), 32)})
	}
	r, err := durable.NewSeal(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
