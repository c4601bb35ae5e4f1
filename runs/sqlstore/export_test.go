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
