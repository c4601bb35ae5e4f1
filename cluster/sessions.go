package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/vmcp-dev/vmcp/runs/seal"
)

// Row is what is kept of a session. Most sessions have none.
type Row struct {
	// ID tells the session from others. It is not what its client sends: who reads the table has no session.
	ID string
	// Owner is the replica that has the session.
	Owner string
	// Epoch counts the owners: 0 for the one that the session began at. Writes of an earlier one are refused.
	Epoch int64
	// State is what a session is begun anew from.
	State State
	// Deleted says that the session is over.
	Deleted bool
}

// State is what a session is begun anew from, beside what its id says. It is sealed in its row.
type State struct {
	// Level is the log level that the client has set; "" for none.
	Level string `json:"level,omitempty"`
	// Subscriptions are the URIs of resources that it follows.
	Subscriptions []string `json:"subscriptions,omitempty"`
	// Backends are the ids of its sessions with backends, by their names.
	Backends map[string]string `json:"backends,omitempty"`
	// Extra is what else its owner keeps.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// maxState bounds the state of one session, in bytes.
const maxState = 256 << 10

// An Adoption is the news that a session has another owner, or is over.
type Adoption struct {
	Session, Owner string
	Epoch          int64
	Deleted        bool
}

// Save writes the row of a session of this replica, which expires in some time. An *AdoptedError or ErrDeleted says
// that it is this replica's no more.
func (m *Members) Save(ctx context.Context, r Row, life time.Duration) error {
	sealed, err := m.sealState(r)
	if err != nil {
		return err
	}
	return m.owned(ctx, "keep a session", r.ID, `INSERT INTO @sessions AS s (id, owner, epoch, state, sealed, expires, changed)
		VALUES ($1, $2, $3, $4, $5, {now} + $6, {now})
		ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state, sealed = EXCLUDED.sealed, expires = EXCLUDED.expires
		WHERE s.owner = $2 AND s.epoch = $3 AND NOT s.deleted`, r.ID, m.self, r.Epoch, sealed, seal.KeyOf(sealed), life.Microseconds())
}

// owned runs a statement that changes the row of a session of this replica, and says whose it is where it did not.
func (m *Members) owned(ctx context.Context, what, id, text string, args ...any) error {
	return m.try(ctx, what, func(ctx context.Context) error {
		tag, err := m.db.Exec(ctx, m.sql(text), args...)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		row, err := m.row(ctx, id)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil // it has expired meanwhile, or there is nothing to renew
		case err != nil:
			return err
		case row.Deleted:
			return ours{ErrDeleted}
		}
		return ours{&AdoptedError{row.Owner}}
	})
}

// Touch renews the rows of sessions of this replica. Those that are no more its own stay as they are.
func (m *Members) Touch(ctx context.Context, ids []string, life time.Duration) error {
	if len(ids) == 0 {
		return nil
	}
	return m.try(ctx, "renew sessions", func(ctx context.Context) error {
		_, err := m.db.Exec(ctx, m.sql(`UPDATE @sessions SET expires = {now} + $3 WHERE id = ANY($1) AND owner = $2 AND NOT deleted`), ids, m.self, life.Microseconds())
		return err
	})
}

// Session reads the row of a session; false when it has none. Its state may not open: the error wraps
// seal.ErrDamaged or is a *seal.UnknownKeyError.
func (m *Members) Session(ctx context.Context, id string) (r Row, ok bool, err error) {
	err = m.try(ctx, "read a session", func(ctx context.Context) error {
		r, err = m.row(ctx, id)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Row{ID: id}, false, nil
	}
	return r, err == nil, err
}

// row reads a row. One that has expired is deleted for all.
func (m *Members) row(ctx context.Context, id string) (Row, error) {
	r := Row{ID: id}
	var state []byte
	err := m.db.QueryRow(ctx, m.sql(`SELECT owner, epoch, state, deleted OR expires < {now} FROM @sessions WHERE id = $1`), id).Scan(&r.Owner, &r.Epoch, &state, &r.Deleted)
	if err != nil || r.Deleted {
		return r, err
	}
	return r, m.openState(&r, state)
}

// Adopt makes this replica the owner of a session whose owner, from, is gone or does not answer. Of many that try one
// wins: the row that comes back names it, and it may be another one than this. ErrDeleted says that the session is over.
//
// A replica that has itself been away, and so may be the one that does not know who is there, looks first.
func (m *Members) Adopt(ctx context.Context, id, from string, life time.Duration) (Row, error) {
	if from == m.self {
		return Row{}, fmt.Errorf("the session is this replica's already")
	}
	if time.Since(m.view.Load().read) > silent*m.o.Heartbeat {
		if err := m.Refresh(ctx); err != nil {
			return Row{}, err
		}
		if _, lives := m.Address(from); lives {
			return Row{ID: id, Owner: from}, nil
		}
	}
	var r Row
	err := m.try(ctx, "adopt a session", func(ctx context.Context) error {
		_, err := m.db.Exec(ctx, m.sql(`INSERT INTO @sessions AS s (id, owner, epoch, expires, changed) VALUES ($1, $2, 1, {now} + $4, {now})
			ON CONFLICT (id) DO UPDATE SET owner = $2, epoch = s.epoch + 1, expires = greatest(s.expires, EXCLUDED.expires), changed = EXCLUDED.changed
			WHERE s.owner = $3 AND NOT s.deleted AND s.expires >= {now}`), id, m.self, from, life.Microseconds())
		if err != nil {
			return err
		}
		r, err = m.row(ctx, id)
		return err
	})
	switch {
	case err != nil:
		return Row{}, err
	case r.Deleted:
		return Row{}, ErrDeleted
	}
	if r.Owner == m.self {
		m.announce(ctx)
	}
	return r, nil
}

// Delete ends a session for every replica. life is how long its id would be good for otherwise.
func (m *Members) Delete(ctx context.Context, id string, life time.Duration) error {
	err := m.try(ctx, "delete a session", func(ctx context.Context) error {
		_, err := m.db.Exec(ctx, m.sql(`INSERT INTO @sessions AS s (id, owner, epoch, deleted, expires, changed) VALUES ($1, $2, 1, TRUE, {now} + $3, {now})
			ON CONFLICT (id) DO UPDATE SET owner = $2, epoch = s.epoch + 1, deleted = TRUE, state = NULL, sealed = '', expires = greatest(s.expires, EXCLUDED.expires), changed = EXCLUDED.changed
			WHERE NOT s.deleted`), id, m.self, life.Microseconds())
		return err
	})
	if err == nil {
		m.announce(ctx)
	}
	return err
}

const (
	// overlap is how many microseconds are read again: a transaction may commit later than its time says.
	overlap = 10_000_000
	// newsMost is how many rows are read at once.
	newsMost = 1000
)

// readAdoptions tells of the sessions that others have adopted or ended since the last look.
func (m *Members) readAdoptions(ctx context.Context) error {
	f := m.adopted.Load()
	if f == nil {
		return nil
	}
	for from, after := m.since-overlap, ""; ; {
		var news []Adoption
		last, now := from, int64(0)
		err := m.try(ctx, "read adoptions", func(ctx context.Context) error {
			news = news[:0]
			rows, err := m.db.Query(ctx, m.sql(`SELECT id, owner, epoch, deleted, changed, {now} FROM @sessions
				WHERE (epoch > 0 OR deleted) AND (changed, id) > ($1, $2) ORDER BY changed, id LIMIT $3`), from, after, newsMost)
			if err != nil {
				return err
			}
			var a Adoption
			_, err = pgx.ForEachRow(rows, []any{&a.Session, &a.Owner, &a.Epoch, &a.Deleted, &last, &now}, func() error {
				news = append(news, a)
				return nil
			})
			return err
		})
		if err != nil {
			return err
		}
		for _, a := range news {
			if a.Owner != m.self {
				(*f)(a)
			}
		}
		if len(news) > 0 {
			from, after = last, news[len(news)-1].Session
			m.since = max(m.since, last)
		}
		if len(news) < newsMost {
			return nil
		}
	}
}

// where is what the state of a session is sealed for.
func where(id string) string { return "sessions|" + id }

func (m *Members) sealState(r Row) ([]byte, error) {
	text, err := json.Marshal(r.State)
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxState:
		return nil, fmt.Errorf("the state of a session with %d bytes: %w", len(text), ErrTooLarge)
	}
	return m.o.Ring.Encrypt(seal.Rows, where(r.ID), text), nil
}

func (m *Members) openState(r *Row, sealed []byte) error {
	if len(sealed) == 0 {
		return nil
	}
	text, err := m.o.Ring.Open(seal.Rows, where(r.ID), sealed)
	if err != nil {
		return ours{fmt.Errorf("the state of a session: %w", err)}
	}
	if err := json.Unmarshal(text, &r.State); err != nil {
		return ours{fmt.Errorf("the state of a session: %w", err)}
	}
	return nil
}
