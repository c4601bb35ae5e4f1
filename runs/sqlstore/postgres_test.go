//go:build unix

package sqlstore_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/runstest"
	"github.com/vmcp-dev/vmcp/runs/runstest/pgtest"
	"github.com/vmcp-dev/vmcp/runs/seal"
	"github.com/vmcp-dev/vmcp/runs/sqlstore"
)

func ring(t testing.TB, ids ...string) *seal.Ring {
	t.Helper()
	var keys []seal.Key
	for _, id := range ids {
		keys = append(keys, seal.Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), 32)})
	}
	r, err := seal.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// schemas names one schema after the other: each test has its own.
var schemas atomic.Int64

func openPostgres(t *testing.T, url, schema string, o runs.Options) *sqlstore.Store {
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
	server := pgtest.Start(t)
	runstest.Test(t, func(*testing.T) runstest.Open {
		schema := fmt.Sprintf("s%d", schemas.Add(1))
		return func(t *testing.T, o runs.Options) runs.Store { return openPostgres(t, server.URL(), schema, o) }
	})
}
