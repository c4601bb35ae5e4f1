package sqlstore

import (
	"database/sql"
	"fmt"
	"testing"
	"time"
)

// SetVersion sets the version of the tables of a file, as another version of this program would.
func SetVersion(t *testing.T, path string, version int) {
	db, err := sql.Open("sqlite", dsn(path, nil))
	if err == nil {
		_, err = db.Exec("UPDATE meta SET value = ? WHERE name = 'version'", version)
	}
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
}

// SetPages limits the file to a number of pages; 0: to as many as it has now.
func SetPages(t *testing.T, s *Store, pages int) {
	f := s.db.database.(*file)
	err := f.write(t.Context(), func(x tx) error {
		if pages == 0 {
			if err := f.conn.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
				return err
			}
		}
		_, err := f.conn.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count(%d)", pages))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Multiply copies each run n times, half of the copies with another wake time; the copies cannot be loaded.
func Multiply(t *testing.T, s *Store, n int, wake time.Time) {
	err := s.db.write(t.Context(), func(x tx) error {
		_, err := x.exec(t.Context(), `INSERT INTO @runs (id, parent, tool, principal, dedupe, program, about, header, state, epoch, owner, lease, wake, expires, created, updated, entries, bytes, doubts, head, keys, result)
			WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < ?)
			SELECT id || '-' || g.n, parent, tool, principal, NULL, program, about, header, state, epoch, owner, lease, CASE WHEN g.n % 2 = 0 THEN wake ELSE ? END, expires, created, updated, entries, bytes, doubts, head, keys, result FROM @runs, g`,
			int64(n), micros(wake))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ExplainDue is how the database executes the look-up of the runs that are due, a line for each step, after it has counted its
// rows. how is the statement that explains.
func ExplainDue(t *testing.T, s *Store, how string, columns int) (plan string) {
	err := s.db.write(t.Context(), func(x tx) error {
		if _, err := x.exec(t.Context(), "ANALYZE"); err != nil {
			return err
		}
		return x.query(t.Context(), how+" "+due, []any{int64(100), int64(100), int64(100)}, func(scan func(...any) error) error {
			values := make([]any, columns)
			for i := range values {
				values[i] = new(any)
			}
			err := scan(values...)
			plan += fmt.Sprint(*values[columns-1].(*any)) + "\n"
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// WithMigrations calls f with the first n migrations only, as in an older version of this program.
func WithMigrations(n int, f func()) {
	all := migrations
	defer func() { migrations = all }()
	migrations = all[:n]
	f()
}

// Definition is the CREATE statement of a table of a file.
func Definition(t *testing.T, path, table string) (made string) {
	db, err := sql.Open("sqlite", dsn(path, nil))
	if err == nil {
		defer db.Close()
		err = db.QueryRow("SELECT sql FROM sqlite_master WHERE name = ?", table).Scan(&made)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// PrunePrograms removes the programs that no run has.
func PrunePrograms(t *testing.T, s *Store) error { return s.prunePrograms(t.Context()) }
