package sqlite_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolclient"
	"github.com/vmcp-dev/vmcp/examples/backends/sqlite"
)

type args = toolclient.Args

type rows struct {
	Columns   []string
	Rows      json.RawMessage
	Truncated bool
}

type changed struct{ RowsAffected, LastInsertID int64 }

func startSQLite(t *testing.T, o sqlite.Options) *toolclient.Client {
	t.Helper()
	d, err := sqlite.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return toolclient.Start(t, d.Server())
}

// described is what describe_table answers.
type described struct {
	Table   string
	Columns []struct {
		Name, Type           string
		Nullable, PrimaryKey bool
		Default              *string
	}
}

func TestSQLiteTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.db")
	c := startSQLite(t, sqlite.Options{File: file})
	for _, sql := range []string{
		`CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'x', "odd ' name" BLOB)`,
		"CREATE VIEW names AS SELECT name FROM items",
	} {
		c.OK("execute", args{"sql": sql}, &changed{})
	}
	var done changed
	c.OK("execute", args{"sql": "INSERT INTO items (id, name) VALUES (?, ?)", "params": []any{int64(9007199254740993), "ü"}}, &done)
	if done.RowsAffected != 1 || done.LastInsertID != 9007199254740993 {
		t.Errorf("%+v", done)
	}
	var got rows
	c.OK("query", args{"sql": "SELECT id, name FROM items WHERE id = ?", "params": []any{int64(9007199254740993)}}, &got)
	if string(got.Rows) != `[[9007199254740993,"ü"]]` {
		t.Errorf("%s", got.Rows)
	}
	var list struct{ Tables []struct{ Name, Type string } }
	c.OK("list_tables", args{}, &list)
	if fmt.Sprint(list.Tables) != "[{items table} {names view}]" {
		t.Errorf("%v", list.Tables)
	}
	var table described
	c.OK("describe_table", args{"table": "items"}, &table)
	if len(table.Columns) != 3 || !table.Columns[0].PrimaryKey || table.Columns[1].Nullable || *table.Columns[1].Default != "'x'" ||
		table.Columns[2].Name != "odd ' name" || !table.Columns[2].Nullable {
		t.Errorf("%+v", table)
	}
	c.Refused("describe_table", args{"table": "items'); DROP TABLE items; --"}, "not_found")
	c.Refused("describe_table", args{"table": ""}, "not_found")
}

// What query is given does not write, and nothing that is given to either reaches another file.
func TestSQLiteHostileStatements(t *testing.T) {
	dir := t.TempDir()
	file, victim := filepath.Join(dir, "d.db"), filepath.Join(dir, "victim")
	c := startSQLite(t, sqlite.Options{File: file})
	c.OK("execute", args{"sql": "CREATE TABLE items (id)"}, &changed{})
	c.OK("execute", args{"sql": "INSERT INTO items VALUES (1), (2)"}, &changed{})
	for _, sql := range []string{
		"DELETE FROM items", "delete from items", "/* SELECT */ DELETE FROM items", "SELECT 1; DELETE FROM items",
		"DROP TABLE items", "PRAGMA query_only = 0", "ATTACH '" + victim + "' AS v", "VACUUM INTO '" + victim + "'", "BEGIN", "",
	} {
		c.Refused("query", args{"sql": sql}, "bad_statement")
	}
	c.Refused("query", args{"sql": "WITH x AS (SELECT 1) DELETE FROM items"}, "sql_error")
	for _, sql := range []string{"INSERT INTO items VALUES (3); DROP TABLE items", "ATTACH '" + victim + "' AS v", "VACUUM INTO '" + victim + "'", "PRAGMA journal_mode = OFF", "SELECT 1"} {
		c.Refused("execute", args{"sql": sql}, "bad_statement")
	}
	var got rows
	c.OK("query", args{"sql": "SELECT count(*) FROM items"}, &got)
	if string(got.Rows) != "[[2]]" {
		t.Errorf("rows left: %s", got.Rows)
	}
	if _, err := os.Stat(victim); err == nil {
		t.Error("a statement made a file")
	}
}

func TestSQLiteReadOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.db")
	if _, err := sqlite.New(sqlite.Options{File: file, ReadOnly: true}); err == nil {
		t.Error("a file that is not there is opened for reading")
	}
	startSQLite(t, sqlite.Options{File: file}).OK("execute", args{"sql": "CREATE TABLE t (x)"}, &changed{})
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := startSQLite(t, sqlite.Options{File: file, ReadOnly: true})
	tools, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	if strings.Join(names, " ") != "describe_table list_tables query" {
		t.Errorf("tools: %v", names)
	}
	c.Refused("query", args{"sql": "WITH x AS (SELECT 1) INSERT INTO t SELECT 1"}, "sql_error")
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed, %v", err)
	}
}

func TestBadStartsOfSQLite(t *testing.T) {
	for _, o := range []sqlite.Options{{}, {File: filepath.Join(t.TempDir(), "no", "d.db")}, {File: t.TempDir()}} {
		if d, err := sqlite.New(o); err == nil {
			d.Close()
			t.Errorf("%+v is accepted", o)
		}
	}
}
