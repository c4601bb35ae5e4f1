package cluster

import "context"

// migrations create the tables; each builds on those before it. A released one never changes; new ones are appended.
// During a rolling update processes of the previous version use the tables of this one: a migration removes nothing
// that they read or write, and new columns have defaults.
//
//	replicas  the processes: seen is when the row was last written, keyed when its keys last changed
//	sessions  sessions with something to store: an owner that is not the one in the id, a state, or an end (deleted)
//	tasks     which backend runs a task, and for which principal
//	tokens    grants of logins at backends (sealed)
//	logins    messages between replicas about pending logins (sealed)
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

// compatible is the oldest schema version whose programs can use the tables of this one.
const compatible = 1

const (
	// cleanEvery is the number of heartbeats between deletions of expired rows, cleanMost the number of rows deleted
	// per statement.
	cleanEvery = 30
	cleanMost  = 1000
	// rows bounds the rows of a table: beyond it, the rows that expire first are deleted.
	rows = 200_000
	// forgotten is the age, in microseconds, at which the row of a silent replica is deleted.
	forgotten = 10 * 60 * 1_000_000
)

// clean deletes expired rows. What fails is tried again at the next cleaning.
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
		m.log.Warn("expired rows were not deleted; the next cleaning tries again", "err", err)
	}
}
