package sqlstore

import (
	"database/sql"
	"fmt"
	"testing"
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
	f := s.db.(*file)
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
