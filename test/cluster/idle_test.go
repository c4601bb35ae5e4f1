//go:build suites

package cluster

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
)

// testIdle: a replica without requests makes few transactions, half of them heartbeats.
func testIdle(t *testing.T, pg *runstest.Server) {
	db, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()"} { // which would be counted
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	db.Close(t.Context())
	w := newWorld(t, pg, "cluster: {listen: \"${VMCP_TEST_PEERS}\"}\n")
	w.replicas[0].start()
	w.replicas[0].awaitReady()
	before := w.statements(pg)
	<-time.After(time.Minute)
	if n := w.statements(pg) - before; n > 80 {
		t.Errorf("%d transactions in a minute, want at most 80", n)
	} else {
		t.Logf("%d transactions in a minute", n)
	}
}
