package postgres_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/postgres"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
)

// TestPostgresEndsATransactionThatStandsStill: the rows that a process has locked are released after it was stopped
// within a transaction, and it has lost its connection when it continues.
func TestPostgresEndsATransactionThatStandsStill(t *testing.T) {
	ctx, pg := t.Context(), runstest.Start(t)
	open := func() *postgres.DB {
		db, err := postgres.Open(ctx, postgres.Options{URL: pg.URL()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		return db
	}
	other := open()
	var within string
	if err := other.QueryRow(ctx, "SHOW idle_in_transaction_session_timeout").Scan(&within); err != nil || within != "5s" {
		t.Errorf("a transaction may stand still for %q, %v; want 5s", within, err)
	}
	if _, err := other.Exec(ctx, "CREATE TABLE held AS SELECT 1 AS id"); err != nil {
		t.Fatal(err)
	}
	stopped, err := open().Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Rollback(context.WithoutCancel(ctx))
	for _, statement := range []string{"UPDATE held SET id = 2", "SET LOCAL idle_in_transaction_session_timeout = 100"} {
		if _, err := stopped.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Exec(ctx, "UPDATE held SET id = 3"); err != nil { // it waits for the row
		t.Errorf("beside a transaction that stands still: %v", err)
	}
	if _, err := stopped.Exec(ctx, "SELECT 1"); !other.Died(err) {
		t.Errorf("the transaction went on with %v; want an error after which a fresh connection does better", err)
	}
}

// TestPostgresStandsStillAtTheEnd: Close does not wait for connections to a server that was stopped.
func TestPostgresStandsStillAtTheEnd(t *testing.T) {
	pg := runstest.Start(t)
	db, err := postgres.Open(t.Context(), postgres.Options{URL: pg.URL()})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	pg.Signal(t, syscall.SIGSTOP)
	defer pg.Signal(t, syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := db.Exec(ctx, "SELECT 1"); err == nil {
		t.Fatal("a server that was stopped answers")
	}
	db.Close()
	if db.Stat().TotalConns() == 0 {
		t.Error("Close has waited until the driver gave its connections up")
	}
}
