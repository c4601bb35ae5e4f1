//go:build unix

package postgres_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/toolclient"
	"github.com/vmcp-dev/vmcp/examples/backends/postgres"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
)

type args = toolclient.Args

type rows struct {
	Columns   []string
	Rows      json.RawMessage
	Truncated bool
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

type affected struct {
	RowsAffected int64
	Command      string
}

func startPostgres(t *testing.T, o postgres.Options) *toolclient.Client {
	t.Helper()
	d, err := postgres.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return toolclient.Start(t, d.Server())
}

func TestPostgres(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	c := startPostgres(t, postgres.Options{DSN: server.URL(), Timeout: 2 * time.Second})
	must := func(sql string, params ...any) {
		t.Helper()
		c.OK("execute", args{"sql": sql, "params": params}, &affected{})
	}
	must(`CREATE TABLE items (id bigint PRIMARY KEY, name text NOT NULL DEFAULT 'x', price numeric, seen timestamptz, more jsonb, "odd "" name" bytea)`)
	must("CREATE VIEW names AS SELECT name FROM items")
	must("INSERT INTO items VALUES ($1, $2, $3, $4, $5, $6)", int64(9007199254740993), "ü'; DROP TABLE items; --", "12345678901234567890.123", "2026-01-02T03:04:05Z", args{"a": []int{1}}, `\x00ff`)
	must("INSERT INTO items (id) VALUES ($1), ($2)", 1, 2)

	t.Run("values keep what they are", func(t *testing.T) {
		var got rows
		c.OK("query", args{"sql": "SELECT id, name, price, more, true AS yes, null AS nothing, 'NaN'::float8 AS nan, \"odd \"\" name\" FROM items WHERE id = $1", "params": []any{int64(9007199254740993)}}, &got)
		want := `[[9007199254740993,"ü'; DROP TABLE items; --",12345678901234567890.123,{"a":[1]},true,null,"NaN","\\x00ff"]]`
		if string(got.Rows) != want {
			t.Errorf("\n got %s\nwant %s", got.Rows, want)
		}
		c.OK("query", args{"sql": "SELECT generate_series(1, 100000)"}, &got)
		if !got.Truncated || strings.Count(string(got.Rows), "[") != 1001 {
			t.Errorf("truncated %t", got.Truncated)
		}
		c.OK("query", args{"sql": "SELECT repeat('x', 200000) FROM generate_series(1, 100000)"}, &got)
		if !got.Truncated || len(got.Rows) > 2<<20 {
			t.Errorf("%d bytes", len(got.Rows))
		}
	})
	t.Run("tables", func(t *testing.T) {
		var list struct {
			Tables []struct{ Schema, Name, Type string }
		}
		c.OK("list_tables", args{}, &list)
		if fmt.Sprint(list.Tables) != "[{public items table} {public names view}]" {
			t.Errorf("%v", list.Tables)
		}
		var table described
		c.OK("describe_table", args{"table": "public.items"}, &table)
		if len(table.Columns) != 6 || !table.Columns[0].PrimaryKey || table.Columns[0].Type != "bigint" || table.Columns[1].Nullable ||
			*table.Columns[1].Default != "'x'::text" || table.Columns[5].Name != `odd " name` {
			t.Errorf("%+v", table)
		}
		c.Refused("describe_table", args{"table": "items'); DROP TABLE items; --"}, postgres.Failed)
		c.Refused("describe_table", args{"table": "no_such"}, postgres.NotFound)
	})
	t.Run("queries do not write", func(t *testing.T) { hostile(t, c) })
	t.Run("a call leaves nothing behind", func(t *testing.T) {
		for range 8 {
			c.OK("query", args{"sql": "SELECT set_config('search_path', 'nowhere', false), set_config('statement_timeout', '0', false), pg_advisory_lock(7)"}, &rows{})
		}
		var got rows
		c.OK("query", args{"sql": "SELECT count(*) FROM items"}, &got)
		c.OK("query", args{"sql": "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"}, &got)
		if string(got.Rows) != "[[0]]" {
			t.Errorf("locks: %s", got.Rows)
		}
	})
	t.Run("time", func(t *testing.T) {
		c.Refused("query", args{"sql": "SELECT pg_sleep(100)"}, postgres.TimedOut)
		c.Refused("query", args{"sql": "SELECT set_config('statement_timeout', '0', true), pg_sleep(100)"}, postgres.TimedOut)
		c.OK("query", args{"sql": "SELECT 1"}, &rows{})
	})
	t.Run("read-only", func(t *testing.T) {
		tools, err := startPostgres(t, postgres.Options{DSN: server.URL(), ReadOnly: true}).ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) != 3 {
			t.Errorf("%v, %v", tools, err)
		}
	})
	t.Run("a database that is away", func(t *testing.T) {
		server.Down(t)
		text := c.Refused("query", args{"sql": "SELECT 1"}, postgres.Unreachable)
		if strings.Contains(text, "vmcp") {
			t.Errorf("it tells who and where: %s", text)
		}
		server.Up(t)
		c.OK("query", args{"sql": "SELECT 1"}, &rows{})
	})
}

func hostile(t *testing.T, c *toolclient.Client) {
	for _, sql := range []string{
		"DELETE FROM items", "/* SELECT */ DELETE FROM items", "/* /* */ SELECT */ DELETE FROM items", "-- SELECT\nDELETE FROM items", "(DELETE FROM items)",
		"COPY (SELECT 1) TO PROGRAM 'touch /tmp/x'", "BEGIN", "COMMIT", "SET TRANSACTION READ WRITE", "DO $$ BEGIN END $$", "CALL x()", "PREPARE p AS SELECT 1", "LISTEN x", "",
	} {
		c.Refused("query", args{"sql": sql}, postgres.BadStatement)
	}
	for _, sql := range []string{
		"SELECT 1; DELETE FROM items", "SELECT 1; COMMIT; DELETE FROM items", "WITH x AS (DELETE FROM items RETURNING 1) SELECT * FROM x", "EXPLAIN ANALYZE DELETE FROM items",
		"SELECT 1 INTO gone", "SELECT set_config('transaction_read_only', 'off', false)", "SELECT nextval('s')", "SELECT * FROM items FOR UPDATE",
	} {
		c.Refused("query", args{"sql": sql}, postgres.Failed)
	}
	c.Refused("query", args{"sql": "SELECT $1", "params": []any{"a\x00b"}}, postgres.BadArguments)
	c.Refused("execute", args{"sql": "INSERT INTO items (id) VALUES (77); DROP TABLE items"}, postgres.Failed)
	var got rows
	c.OK("query", args{"sql": "SELECT count(*) FROM items"}, &got)
	if string(got.Rows) != "[[3]]" {
		t.Errorf("rows left: %s", got.Rows)
	}
}

func TestBadStartsOfPostgres(t *testing.T) {
	for _, dsn := range []string{"", "postgres://u:hunter22@h:port/x", "http://u:hunter22@h/"} {
		_, err := postgres.New(postgres.Options{DSN: dsn})
		if err == nil || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}
