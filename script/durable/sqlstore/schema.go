package sqlstore

import (
	"context"
	"fmt"
)

// migrations create the tables, each from those of the one before. A migration is never changed; new
// ones are appended. Sealed columns are sealed by durable.Ring; the others are for finding rows, and are
// compared with the sealed data when a run is read.
//
//	programs   the files of a program, under the hash of this row
//	runs       about (sealed): the data that the run was begun with; result (sealed): its result and error;
//	           head: the seal of the chain over its entries; keys: ids of the keys that sealed parts of it
//	entries    sealed: the entry; seq: its position among those with an answer; ord: the order of their begin
//	questions  sealed: method and params; answer (sealed)
//	outbox     events that were not sent yet, and ends that were not counted yet
//
// The second one is for SQLite only: a table WITHOUT ROWID stores whole rows in the B-tree of the key, so that each comparison
// of a lookup read a whole row: a call was 80 times as expensive beside runs with answers of 1 MB.
var migrations = []string{`
CREATE TABLE @programs (hash TEXT PRIMARY KEY, engine {int} NOT NULL, source {blob} NOT NULL);
CREATE TABLE @runs (
	id TEXT PRIMARY KEY, parent TEXT NOT NULL, tool TEXT NOT NULL, principal TEXT NOT NULL, dedupe TEXT, program TEXT NOT NULL,
	about {blob} NOT NULL, header {blob}, state TEXT NOT NULL, epoch {int} NOT NULL, owner TEXT NOT NULL, lease {int} NOT NULL,
	wake {int} NOT NULL, expires {int} NOT NULL, created {int} NOT NULL, updated {int} NOT NULL,
	entries {int} NOT NULL, bytes {int} NOT NULL, doubts TEXT NOT NULL, head {blob} NOT NULL, keys TEXT NOT NULL, result {blob});
CREATE UNIQUE INDEX runs_dedupe ON @runs (principal, dedupe) WHERE dedupe IS NOT NULL;
CREATE INDEX runs_due ON @runs (wake) WHERE state NOT IN ('done', 'failed', 'cancelled');
CREATE INDEX runs_expires ON @runs (expires) WHERE state NOT IN ('done', 'failed', 'cancelled') AND expires > 0;
CREATE INDEX runs_updated ON @runs (updated, id);
CREATE INDEX runs_state ON @runs (state, updated);
CREATE INDEX runs_program ON @runs (program);
CREATE TABLE @entries (
	run TEXT NOT NULL, key TEXT NOT NULL, seq {int}, ord {int} NOT NULL, sealed {blob} NOT NULL,
	PRIMARY KEY (run, key)){norowid};
CREATE TABLE @questions (
	run TEXT NOT NULL, key TEXT NOT NULL, ord {int} NOT NULL, deadline {int} NOT NULL, sealed {blob} NOT NULL, answer {blob},
	PRIMARY KEY (run, key)){norowid};
CREATE TABLE @outbox (run TEXT NOT NULL, event TEXT NOT NULL, epoch {int} NOT NULL, at {int} NOT NULL, attempts {int} NOT NULL, next {int} NOT NULL, PRIMARY KEY (run, event, epoch)){norowid};
`, `
{sqlite}CREATE TABLE entries_rows (run TEXT NOT NULL, key TEXT NOT NULL, seq {int}, ord {int} NOT NULL, sealed {blob} NOT NULL, PRIMARY KEY (run, key));
{sqlite}INSERT INTO entries_rows (run, key, seq, ord, sealed) SELECT run, key, seq, ord, sealed FROM entries ORDER BY run, ord;
{sqlite}DROP TABLE entries;
{sqlite}ALTER TABLE entries_rows RENAME TO entries;
{sqlite}CREATE TABLE questions_rows (run TEXT NOT NULL, key TEXT NOT NULL, ord {int} NOT NULL, deadline {int} NOT NULL, sealed {blob} NOT NULL, answer {blob}, PRIMARY KEY (run, key));
{sqlite}INSERT INTO questions_rows (run, key, ord, deadline, sealed, answer) SELECT run, key, ord, deadline, sealed, answer FROM questions;
{sqlite}DROP TABLE questions;
{sqlite}ALTER TABLE questions_rows RENAME TO questions;
`}

// migrate runs the migrations that the tables do not have yet. It refuses tables of a newer program.
func migrate(ctx context.Context, t tx, tables string) error {
	if _, err := t.exec(ctx, `CREATE TABLE IF NOT EXISTS @meta (name TEXT PRIMARY KEY, value {int} NOT NULL)`); err != nil {
		return err
	}
	if _, err := t.exec(ctx, `INSERT INTO @meta (name, value) VALUES ('version', 0), ('commits', 0) ON CONFLICT (name) DO NOTHING`); err != nil {
		return err
	}
	var version int
	if err := one(ctx, t, `SELECT value FROM @meta WHERE name = 'version' {lock}`, nil, &version); err != nil {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("%s has tables of version %d, which is newer than this program: it knows version %d", tables, version, len(migrations))
	}
	for _, m := range migrations[version:] {
		if _, err := t.exec(ctx, m); err != nil {
			return err
		}
	}
	_, err := t.exec(ctx, `UPDATE @meta SET value = ? WHERE name = 'version'`, int64(len(migrations)))
	return err
}

// one reads the only row of a query; errNoRow where there is none.
func one(ctx context.Context, t tx, sql string, args []any, dest ...any) error {
	found := false
	err := t.query(ctx, sql, args, func(scan func(...any) error) error {
		found = true
		return scan(dest...)
	})
	if err == nil && !found {
		return errNoRow
	}
	return err
}
