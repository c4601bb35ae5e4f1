package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// The connections hold by themselves, should a statement get past the check of its text.
func TestConnectionsHoldWithoutTheTextCheck(t *testing.T) {
	for name, o := range map[string]Options{
		"memory": {Timeout: time.Minute},
		"file":   {Timeout: time.Minute, File: filepath.Join(t.TempDir(), "d.db")},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			victim := filepath.Join(t.TempDir(), "victim")
			for _, src := range []string{"ATTACH '" + victim + "' AS v", "VACUUM INTO '" + victim + "'", "SELECT load_extension('x')"} {
				err := s.writing(t.Context(), func(ctx context.Context, c *sql.Conn) error {
					_, err := c.ExecContext(ctx, src)
					return err
				})
				if err == nil {
					t.Errorf("%s: no error", src)
				}
			}
			if _, err := os.Stat(victim); err == nil {
				t.Error("a statement made a file")
			}
		})
	}
}

// Many values below the limit of one value add up; here one larger value replaces them.
func TestMemoryOfSQLIsLimited(t *testing.T) {
	s, err := Open(Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.reading(t.Context(), func(ctx context.Context, c *sql.Conn) error {
		if _, err := driver.Limit(c, lib.SQLITE_LIMIT_LENGTH, 1<<30); err != nil {
			return err
		}
		var out string
		return c.QueryRowContext(ctx, "SELECT hex(zeroblob(300000000))").Scan(&out)
	})
	if err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("300 MB with a limit of 256 MiB: got %v, want out of memory", err)
	}
}

func TestSeedFillsAnEmptyDatabaseOnce(t *testing.T) {
	dir := t.TempDir()
	o := Options{File: filepath.Join(dir, "d.db"), Seed: filepath.Join(dir, "seed.sql"), Timeout: time.Minute}
	if err := os.WriteFile(o.Seed, []byte("CREATE TABLE t (x); INSERT INTO t VALUES (1);"), 0o644); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 { // as when a proxy starts several processes of one backend
		wg.Go(func() {
			s, err := Open(o)
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Query(t.Context(), QueryIn{SQL: "SELECT count(*) FROM t"})
	if err != nil || fmt.Sprint(got.Rows) != "[[1]]" {
		t.Errorf("rows of the seeded table: %v, %v; want one", got, err)
	}
}

// What is done at the start is no statement of a caller: however short the limit for those is, the database opens.
func TestTheStartIsNoStatement(t *testing.T) {
	seed := filepath.Join(t.TempDir(), "seed.sql")
	if err := os.WriteFile(seed, []byte("CREATE TABLE t (x)"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Timeout: time.Nanosecond}, {Timeout: time.Nanosecond, Seed: seed}} {
		s, err := Open(o)
		if err != nil {
			t.Errorf("%+v: %v", o, err)
			continue
		}
		s.Close()
	}
}
