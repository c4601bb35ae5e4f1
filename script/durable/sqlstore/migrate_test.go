package sqlstore_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// TestAnOlderFile: runs that an older version of this program has written are read and executed further.
func TestAnOlderFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	var want map[string]journal
	sqlstore.WithMigrations(1, func() {
		s := openSQLite(t, path, nil, false)
		want = fill(t, s, "a", 10)
		must(t, s.Close())
	})
	s := openSQLite(t, path, nil, false)
	defer s.Close()
	for id, w := range want {
		r, entries, err := s.Get(t.Context(), id)
		must(t, err)
		if d := w.differs(journal{r, entries}); d != "" {
			t.Errorf("run %s (-want +got):\n%s", id, d)
		}
	}
	fill(t, s, "b", 3)
	for _, table := range []string{"entries", "questions"} { // large rows must not be in the B-tree of the key
		if made := sqlstore.Definition(t, path, table); strings.Contains(made, "WITHOUT ROWID") {
			t.Errorf("%s was made with %s", table, made)
		}
	}
}
