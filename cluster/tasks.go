package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// Task is a task of a backend.
type Task struct {
	// Principal is whose it is, "" for nobody's, and ID the backend's word for it.
	Principal, ID string
	// Backend runs it, and Tool is what was called there, in the backend's words.
	Backend, Tool string
	// Session is that of the client, as its row names it; "" for a client without.
	Session string
}

// PutTask remembers a task for some time.
func (m *Members) PutTask(ctx context.Context, t Task, life time.Duration) error {
	return m.try(ctx, "keep a task", func(ctx context.Context) error {
		_, err := m.db.Exec(ctx, m.sql(`INSERT INTO @tasks (principal, id, backend, tool, session, expires) VALUES ($1, $2, $3, $4, $5, {now} + $6)
			ON CONFLICT (principal, id) DO UPDATE SET backend = EXCLUDED.backend, tool = EXCLUDED.tool, session = EXCLUDED.session, expires = EXCLUDED.expires`),
			t.Principal, t.ID, t.Backend, t.Tool, t.Session, life.Microseconds())
		return err
	})
}

// Task finds a task of a principal; false when nobody knows it.
func (m *Members) Task(ctx context.Context, principal, id string) (t Task, ok bool, err error) {
	t = Task{Principal: principal, ID: id}
	err = m.try(ctx, "find a task", func(ctx context.Context) error {
		return m.db.QueryRow(ctx, m.sql(`SELECT backend, tool, session FROM @tasks WHERE principal = $1 AND id = $2 AND expires >= {now}`), principal, id).Scan(&t.Backend, &t.Tool, &t.Session)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return t, false, nil
	}
	return t, err == nil, err
}
