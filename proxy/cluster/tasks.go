package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// Task is a task of a backend.
type Task struct {
	// Principal is the key of the principal that the task belongs to, "" for an anonymous client, and ID the backend's
	// id of the task.
	Principal, ID string
	// Backend runs the task, and Tool is the name of its tool as the backend has it.
	Backend, Tool string
	// Session is the id of the client's session in its row; "" for a client without a session.
	Session string
}

// PutTask stores a task for the time life.
func (m *Members) PutTask(ctx context.Context, t Task, life time.Duration) error {
	return m.try(ctx, "store a task", func(ctx context.Context) error {
		_, err := m.db.Exec(ctx, m.sql(`INSERT INTO @tasks (principal, id, backend, tool, session, expires) VALUES ($1, $2, $3, $4, $5, {now} + $6)
			ON CONFLICT (principal, id) DO UPDATE SET backend = EXCLUDED.backend, tool = EXCLUDED.tool, session = EXCLUDED.session, expires = EXCLUDED.expires`),
			t.Principal, t.ID, t.Backend, t.Tool, t.Session, life.Microseconds())
		return err
	})
}

// Task finds a task of a principal; ok is false if there is none.
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
