package cluster

import "context"

// migrations make the tables, each from what the one before has made. They are never changed and only added to. Processes
// of the version before go on with the tables of this one while a new version is rolled out: nothing that they use goes
// away, and what is added has a default.
//
//	replicas  the processes: seen is when a row was last written, keyed when its keys last changed
//	sessions  those with something to keep: an owner that is not the one in the id, a state, or an end (deleted)
//	tasks     which backend runs a task, and for whom
//	tokens    what logins at backends gave (sealed)
//	logins    word that replicas leave each other of logins that are under way (sealed)
//
// Times are microseconds since 1970 by the clock of the database.
var migrations = []string{`
CREATE TABLE @replicas (
	id TEXT PRIMARY KEY, address TEXT NOT NULL, seen BIGINT NOT NULL, config TEXT NOT NULL,
	keys TEXT NOT NULL, checks BYTEA NOT NULL, keyed BIGINT NOT NULL);
CREATE TABLE @sessions (
	id TEXT PRIMARY KEY, owner TEXT NOT NULL, epoch BIGINT NOT NULL, state BYTEA, sealed TEXT NOT NULL DEFAULT '',
	deleted BOOLEAN NOT NULL DEFAULT FALSE, expires BIGINT NOT NULL, changed BIGINT NOT NULL);
CREATE INDEX sessions_expires ON @sessions (expires);
CREATE INDEX sessions_changed ON @sessions (changed) WHERE epoch > 0 OR deleted;
CREATE TABLE @tasks (
	principal TEXT NOT NULL, id TEXT NOT NULL, backend TEXT NOT NULL, tool TEXT NOT NULL, session TEXT NOT NULL, expires BIGINT NOT NULL,
	PRIMARY KEY (principal, id));
CREATE INDEX tasks_expires ON @tasks (expires);
CREATE TABLE @tokens (
	backend TEXT NOT NULL, principal TEXT NOT NULL, sealed BYTEA NOT NULL, key TEXT NOT NULL, updated BIGINT NOT NULL,
	PRIMARY KEY (backend, principal));
CREATE TABLE @logins (id TEXT PRIMARY KEY, sealed BYTEA NOT NULL, key TEXT NOT NULL, expires BIGINT NOT NULL);
CREATE INDEX logins_expires ON @logins (expires);
`}

// compatible is the oldest version of the tables whose programs can use those of this one.
const compatible = 1

const (
	// cleanEvery is after how many heartbeats what has expired is deleted, and cleanMost how many rows of a table at once.
	cleanEvery = 30
	cleanMost  = 1000
	// rows bounds the rows of a table: beyond it those go that would expire first.
	rows = 200_000
	// forgotten is how many microseconds the row of a replica stays that says nothing more.
	forgotten = 10 * 60 * 1_000_000
)

// clean deletes what has expired. What cannot be deleted now is deleted later.
func (m *Members) clean(ctx context.Context) {
	for _, table := range []string{"sessions", "tasks", "logins"} {
		m.delete(ctx, `DELETE FROM @`+table+` WHERE ctid IN (SELECT ctid FROM @`+table+` WHERE expires < {now} LIMIT $1)`, cleanMost)
		m.delete(ctx, `DELETE FROM @`+table+` WHERE ctid IN (SELECT ctid FROM @`+table+` ORDER BY expires DESC OFFSET $1)`, rows)
	}
	m.delete(ctx, `DELETE FROM @replicas WHERE seen < {now} - $1`, forgotten)
}

func (m *Members) delete(ctx context.Context, text string, arg int64) {
	err := m.try(ctx, "clean up", func(ctx context.Context) error {
		_, err := m.db.Exec(ctx, m.sql(text), arg)
		return err
	})
	if err != nil && ctx.Err() == nil {
		m.log.Warn("rows that have expired are kept for now", "err", err)
	}
}
