package sqlstore

import (
	"database/sql"
	"fmt"
	"testing"
)

// SetVersion pretends that another program has made the tables of a file.
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

// SetPages makes the file full when it has that many pages; 0: as many as it has now.
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

// WithMigrations has f work with the first n migrations only, as an older program did.
func WithMigrations(n int, f func()) {
	all := migrations
	defer func() { migrations = all }()
	migrations = all[:n]
	f()
}

// Definition is how a table of a file was made.
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
