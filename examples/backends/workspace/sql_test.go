package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func withItems(t *testing.T, o Options) client {
	t.Helper()
	c := start(t, o)
	c.ok("sql_execute", args{"sql": "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, due DATE)"})
	return c
}

func TestQueryReturnsColumnsAndRows(t *testing.T) {
	c := withItems(t, Options{})
	for _, due := range []string{"2026-01-02", "2026-03-04"} {
		c.ok("sql_execute", args{"sql": "INSERT INTO items (name, due) VALUES (?, ?)", "params": []any{"pen", due}})
	}
	got := asJSON(c.ok("sql_query", args{"sql": "SELECT * FROM items -- all\n;"}))
	want := `{"columns":["id","name","due"],"rows":[[1,"pen","2026-01-02"],[2,"pen","2026-03-04"]],"truncated":false}`
	if got != want {
		t.Errorf("sql_query:\n got %s\nwant %s", got, want)
	}
	one := c.ok("sql_query", args{"sql": "SELECT id FROM items", "maxRows": 1})
	if asJSON(one["rows"]) != "[[1]]" || one["truncated"] != true {
		t.Errorf("sql_query with maxRows 1: got %s", asJSON(one))
	}
}

func TestValuesKeepTheirType(t *testing.T) {
	c := start(t, Options{})
	r := c.call("sql_query", args{
		"sql":    "SELECT ?, ?, ?, ?, ?, typeof(?)",
		"params": []any{nil, int64(9007199254740993), 1.5, "x", args{"base64": "AP8="}, args{"base64": "AP8="}},
	})
	want := `"rows":[[null,9007199254740993,1.5,"x",{"base64":"AP8="},"blob"]]`
	if !strings.Contains(text(r), want) {
		t.Errorf("sql_query:\n got %s\nwant %s", text(r), want)
	}
}

func TestParametersAreNeverSQL(t *testing.T) {
	c := withItems(t, Options{})
	evil := "x'); DROP TABLE items; --"
	c.ok("sql_execute", args{"sql": "INSERT INTO items (name) VALUES (?)", "params": []any{evil}})
	got := c.ok("sql_query", args{"sql": "SELECT name FROM items WHERE name = ?", "params": []any{evil}})
	if asJSON(got["rows"]) != asJSON([]any{[]any{evil}}) {
		t.Errorf("rows: got %s, want the text as it was given", asJSON(got["rows"]))
	}
}

// Statements that reach beyond the tables of the database: other files, several statements,
// limits, pages. Each is tried with the tool whose first words fit best.
func TestHostileSQLIsRefused(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	for _, tt := range []struct{ tool, sql string }{
		{"sql_query", "ATTACH '" + victim + "' AS v"},
		{"sql_execute", "ATTACH '" + victim + "' AS v"},
		{"sql_execute", "VACUUM INTO '" + victim + "'"},
		{"sql_execute", "/* SELECT */ -- SELECT\n vacuum into '" + victim + "'"},
		{"sql_query", "SELECT 1; ATTACH '" + victim + "' AS v"},
		{"sql_query", "SELECT '''; ' ; ATTACH '" + victim + "' AS v"},
		{"sql_query", "SELECT $a('); ATTACH '" + victim + "' AS v; --'"},
		{"sql_query", "SELECT [a'] ; ATTACH '" + victim + "' AS v --']"},
		{"sql_query", "SELECT 1 /*/ ; */; ATTACH '" + victim + "' AS v"},
		{"sql_query", "\ufeffPRAGMA query_only=0"},
		{"sql_query", "PRAGMA temp_store_directory='" + dir + "'"},
		{"sql_query", "EXPLAIN PRAGMA temp_store_directory='" + dir + "'"},
		{"sql_query", "EXPLAIN QUERY PLAN ATTACH '" + victim + "' AS v"},
		{"sql_query", "EXPLAIN EXPLAIN PRAGMA query_only=0"},
		{"sql_execute", "PRAGMA writable_schema=1"},
		{"sql_query", "SELECT file FROM pragma_database_list"},
		{"sql_query", `SELECT file FROM "PRAGMA_database_list"()`},
		{"sql_query", "SELECT * FROM 'pragma_database_list'"},
		{"sql_query", "SELECT * FROM \ufeffpragma_database_list"},
		{"sql_query", "SELECT load_extension('/lib/x.so')"},
		{"sql_execute", "UPDATE sqlite_dbpage SET data = zeroblob(4096)"},
		{"sql_execute", "CREATE VIRTUAL TABLE t USING fts5(x)"},
		{"sql_execute", "CREATE TEMP TABLE t (x)"},
		{"sql_execute", "BEGIN EXCLUSIVE"},
		{"sql_execute", "CREATE TRIGGER t AFTER INSERT ON items BEGIN DELETE FROM items; END"},
		{"sql_query", "SELECT 1\x00; ATTACH '" + victim + "' AS v"},
		{"sql_query", ""},
	} {
		t.Run(tt.sql, func(t *testing.T) {
			withItems(t, Options{}).refused("bad_statement", tt.tool, args{"sql": tt.sql})
		})
	}
	if _, err := os.Stat(victim); err == nil {
		t.Error("a statement made a file")
	}
}

func TestQueriesCannotWrite(t *testing.T) {
	for name, db := range map[string]string{"memory": "", "file": filepath.Join(t.TempDir(), "d.db")} {
		t.Run(name, func(t *testing.T) {
			c := withItems(t, Options{Database: db})
			got := c.refused("sql_error", "sql_query", args{"sql": "WITH x AS (SELECT 1) INSERT INTO items (id) SELECT * FROM x"})
			if !strings.Contains(got, "readonly") {
				t.Errorf("a write through sql_query: got %q, want it refused as readonly", got)
			}
		})
	}
}

func TestEndlessQueriesEnd(t *testing.T) {
	o := Options{Database: filepath.Join(t.TempDir(), "items.db")}
	patient := withItems(t, o)
	o.QueryTimeout = 100 * time.Millisecond
	c := start(t, o)
	const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) "
	c.refused("timeout", "sql_query", args{"sql": endless + "SELECT max(i) FROM n"})
	c.refused("timeout", "sql_execute", args{"sql": endless + "INSERT INTO items (name) SELECT 'x' FROM n WHERE i < 0"})
	if got := patient.ok("sql_query", args{"sql": "SELECT count(*) FROM items"}); asJSON(got["rows"]) != "[[0]]" {
		t.Errorf("after a timeout: got %s, want the empty table still there", asJSON(got["rows"]))
	}
}

func TestGreedyQueriesEnd(t *testing.T) {
	c := start(t, Options{QueryTimeout: time.Minute})
	c.refused("sql_error", "sql_query", args{"sql": "SELECT zeroblob(1000000000)"})
	got := c.ok("sql_query", args{"sql": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i, printf('%.*c', 100000, 'x') FROM n"})
	if rows := got["rows"].([]any); len(rows) > 20 || got["truncated"] != true {
		t.Errorf("endless rows of 100 kB: got %d of them, truncated %v", len(rows), got["truncated"])
	}
}

func TestBadDatabasesAreRefusedAtStart(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(file("target", ""), link); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		o    Options
		want string
	}{
		"no database":  {Options{Database: file("text.db", strings.Repeat("not a database ", 100)), Seed: file("ok.sql", "")}, "not a database"},
		"link":         {Options{Database: link}, "want a regular file"},
		"no folder":    {Options{Database: filepath.Join(dir, "no", "d.db")}, "no such file"},
		"no seed":      {Options{Seed: filepath.Join(dir, "no.sql")}, "no such file"},
		"seed not SQL": {Options{Seed: file("bad.sql", "CREATE TABEL t (x)")}, "syntax error"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.o.Root = t.TempDir()
			if _, err := New(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New: got %v, want an error with %q", err, tt.want)
			}
		})
	}
}
