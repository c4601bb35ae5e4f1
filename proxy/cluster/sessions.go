package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// Row is what the store has of a session. Most sessions have no row.
type Row struct {
	// ID identifies the session. It is not the Mcp-Session-Id of the client: reading the table does not give access to
	// a session.
	ID string
	// Owner is the id of the replica that owns the session.
	Owner string
	// Epoch counts changes of owner: 0 for the replica at which the session began. A write with an older epoch is
	// refused.
	Epoch int64
	// State is what a replica restores the session from.
	State State
	// Deleted says that the session has ended.
	Deleted bool
}

// State is what a replica restores a session from, beside what the session id contains. It is sealed in the row.
type State struct {
	// Level is the log level that the client has set; "" for none.
	Level string `json:"level,omitempty"`
	// Subscriptions are the URIs of the resources that the client has subscribed to.
	Subscriptions []string `json:"subscriptions,omitempty"`
	// Backends are the ids of its backend sessions, by backend name.
	Backends map[string]string `json:"backends,omitempty"`
	// Extra is further state that the owner stores, as JSON.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// maxState bounds the state of one session, in bytes.
const maxState = 256 << 10

// An Adoption reports that a session has a new owner, or has ended.
type Adoption struct {
	Session, Owner string
	Epoch          int64
	Deleted        bool
}

// Save writes the row of a session of this replica; the row expires after life. An *AdoptedError or ErrDeleted says
// that the session is no longer this replica's.
func (m *Members) Save(ctx context.Context, r Row, life time.Duration) error {
	sealed, err := m.sealState(r)
	if err != nil {
		return err
	}
	return m.owned(ctx, "save a session", r.ID, `INSERT INTO @sessions AS s (id, owner, epoch, state, sealed, expires, changed)
		VALUES ($1, $2, $3, $4, $5, {now} + $6, {now})
		ON CONFLICT (id) DO UPDATE SET state = EXCLUDED.state, sealed = EXCLUDED.sealed, expires = EXCLUDED.expires
		WHERE s.owner = $2 AND s.epoch = $3 AND NOT s.deleted`, r.ID, m.self, r.Epoch, sealed, durable.KeyOf(sealed), life.Microseconds())
}

// owned runs a statement that changes the row of a session of this replica. If no row was changed, it reads the row and
// returns ErrDeleted or an *AdoptedError with the owner.
func (m *Members) owned(ctx context.Context, what, id, text string, args ...any) error {
	return m.try(ctx, what, func(ctx context.Context) error {
		tag, err := m.db.Exec(ctx, m.sql(text), args...)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		row, err := m.row(ctx, id)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil // the row has expired meanwhile, or there was none to renew
		case err != nil:
			return err
		case row.Deleted:
			return ours{ErrDeleted}
		}
		return ours{&AdoptedError{row.Owner}}
	})
}

// Touch extends the rows of sessions of this replica to expire after life. Rows that belong to others are left alone.
func (m *Members) Touch(ctx context.Context, ids []string, life time.Duration) error {
	if len(ids) == 0 {
		return nil
	}
	return m.try(ctx, "renew sessions", func(ctx context.Context) error {
		_, err := m.db.Exec(ctx, m.sql(`UPDATE @sessions SET expires = {now} + $3 WHERE id = ANY($1) AND owner = $2 AND NOT deleted`), ids, m.self, life.Microseconds())
		return err
	})
}

// Session reads the row of a session; ok is false when it has none. If the state cannot be opened, the error wraps
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

// row reads a row. An expired row counts as deleted.
func (m *Members) row(ctx context.Context, id string) (Row, error) {
	r := Row{ID: id}
	var state []byte
	err := m.db.QueryRow(ctx, m.sql(`SELECT owner, epoch, state, deleted OR expires < {now} FROM @sessions WHERE id = $1`), id).Scan(&r.Owner, &r.Epoch, &state, &r.Deleted)
	if err != nil || r.Deleted {
		return r, err
	}
	return r, m.openState(&r, state)
}

// Adopt makes this replica the owner of a session whose owner, from, is gone or does not answer. If several replicas
// try, one wins: the returned row names the owner, which may be another replica. ErrDeleted says that the session has
// ended. life is the time until the row expires, unless it already expires later.
//
// If the last heartbeat is older than the limit for silence, this replica may be the one that was cut off: Adopt then
// reads the replicas first, and returns from as the owner if it is alive.
func (m *Members) Adopt(ctx context.Context, id, from string, life time.Duration) (Row, error) {
	if from == m.self {
		return Row{}, fmt.Errorf("adopt a session: this replica owns it already")
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

// Delete ends a session for all replicas. life is how long its id would remain valid otherwise.
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
	// overlap is how many microseconds of changes are read again: a transaction may commit later than its timestamp.
	overlap = 10_000_000
	// newsMost is the number of rows that one query reads.
	newsMost = 1000
)

// adoptions reads at most newsMost sessions that other replicas have adopted or ended, behind a position.
const adoptions = `SELECT id, owner, epoch, deleted, changed FROM @sessions WHERE (epoch > 0 OR deleted) AND (changed, id) > ($1, $2) ORDER BY changed, id LIMIT $3`

// news is a page of adoptions.
type news struct {
	all  []Adoption
	last int64 // when the last one was changed
}

func (n *news) read(rows pgx.Rows) error {
	*n = news{}
	var a Adoption
	_, err := pgx.ForEachRow(rows, []any{&a.Session, &a.Owner, &a.Epoch, &a.Deleted, &n.last}, func() error {
		n.all = append(n.all, a)
		return nil
	})
	return err
}

// deliver calls the function of OnAdoption for a page of adoptions and all behind it.
func (m *Members) deliver(ctx context.Context, n news) error {
	f := m.adopted.Load()
	for len(n.all) > 0 {
		for _, a := range n.all {
			if a.Owner != m.self {
				(*f)(a)
			}
		}
		m.since = max(m.since, n.last)
		if len(n.all) < newsMost {
			return nil
		}
		from, after := n.last, n.all[len(n.all)-1].Session
		if err := m.try(ctx, "read adoptions", func(ctx context.Context) error {
			rows, err := m.db.Query(ctx, m.sql(adoptions), from, after, newsMost)
			if err != nil {
				return err
			}
			return n.read(rows)
		}); err != nil {
			return err
		}
	}
	return nil
}

// where is the context that the state of a session is sealed with.
func where(id string) string { return "sessions|" + id }

func (m *Members) sealState(r Row) ([]byte, error) {
	text, err := json.Marshal(r.State)
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxState:
		return nil, fmt.Errorf("the state of a session has %d bytes: %w", len(text), ErrTooLarge)
	}
	return m.o.Ring.Encrypt(durable.Rows, where(r.ID), text), nil
}

func (m *Members) openState(r *Row, sealed []byte) error {
	if len(sealed) == 0 {
		return nil
	}
	text, err := m.o.Ring.Open(durable.Rows, where(r.ID), sealed)
	if err != nil {
		return ours{fmt.Errorf("open the state of a session: %w", err)}
	}
	if err := json.Unmarshal(text, &r.State); err != nil {
		return ours{fmt.Errorf("decode the state of a session: %w", err)}
	}
	return nil
}
