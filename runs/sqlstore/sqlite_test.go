package sqlstore_test

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/runstest"
	"github.com/vmcp-dev/vmcp/runs/seal"
	"github.com/vmcp-dev/vmcp/runs/sqlstore"
)

// besides opens a file first as the process that serves it, and then with Beside, as other processes do.
func besides(path string) runstest.Open {
	opened := false
	return func(t *testing.T, o runs.Options) runs.Store {
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
