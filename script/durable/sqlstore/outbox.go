package sqlstore

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// enqueue returns the statements that put an event in the outbox, in the transaction that changes the state.
func (s *Store) enqueue(id string, state durable.State, epoch int64) []stmt {
	if !slices.Contains(s.options.Notify, state) {
		return nil
	}
	return []stmt{{`INSERT INTO @outbox (run, event, epoch, at, attempts, next) SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS {int}), {now}, 0, 0 FROM @runs WHERE id = ? AND epoch = ? AND state = ?
		ON CONFLICT DO NOTHING`, []any{id, string(state), epoch, id, epoch, string(state)}}}
}

// Claim implements [durable.Outbox].
func (s *Store) Claim(ctx context.Context, n int, hold time.Duration) (claimed []durable.Event, err error) {
	waiting := false
	if err := s.db.readOne(ctx, func(t snapshot) error {
		return t.query(ctx, `SELECT 1 FROM @outbox WHERE next <= {now} LIMIT 1`, nil, func(func(...any) error) error { waiting = true; return nil })
	}); err != nil || !waiting {
		return nil, err
	}
	err = s.db.write(ctx, func(t tx) error {
		found, err := s.events(ctx, t, n)
		claimed = nil
		for _, e := range found {
			got, err := t.exec(ctx, `UPDATE @outbox SET attempts = attempts + 1, next = {now} + ? WHERE run = ? AND event = ? AND epoch = ? AND next <= {now}`,
				hold.Microseconds(), e.Run, string(e.State), e.Epoch)
			if err != nil {
				return err
			}
			if got == 1 { // else another process has claimed it
				claimed = append(claimed, e)
			}
		}
		return err
	})
	return claimed, err
}

// events returns at most n events that are due.
func (s *Store) events(ctx context.Context, t tx, n int) (found []durable.Event, err error) {
	err = t.query(ctx, `SELECT o.run, o.event, o.epoch, o.at, o.attempts, r.tool FROM @outbox o JOIN @runs r ON r.id = o.run WHERE o.next <= {now} ORDER BY o.next, o.at LIMIT ?`, []any{int64(n)}, func(scan func(...any) error) error {
		var e durable.Event
		var state, tool string
		var at, attempts int64
		if err := scan(&e.Run, &state, &e.Epoch, &at, &attempts, &tool); err != nil {
			return err
		}
		e.State, e.Tool, e.At, e.Attempts = durable.State(state), fromColumn(tool), fromMicros(at), int(attempts)+1
		found = append(found, e)
		return nil
	})
	return found, err
}

// Sent implements [durable.Outbox].
func (s *Store) Sent(ctx context.Context, e durable.Event) error {
	return s.db.write(ctx, func(t tx) error {
		_, err := t.exec(ctx, `DELETE FROM @outbox WHERE run = ? AND event = ? AND epoch = ?`, e.Run, string(e.State), e.Epoch)
		return err
	})
}

// Later implements [durable.Outbox].
func (s *Store) Later(ctx context.Context, e durable.Event, in time.Duration) error {
	return s.db.write(ctx, func(t tx) error {
		_, err := t.exec(ctx, `UPDATE @outbox SET next = {now} + ? WHERE run = ? AND event = ? AND epoch = ?`, in.Microseconds(), e.Run, string(e.State), e.Epoch)
		return err
	})
}

// uncounted returns the statement that stores an end for Uncounted. It is never sent: its next is the largest number.
// The event has the name of the tool, because the row stays when the run is pruned.
func (s *Store) uncounted(id, tool string, state durable.State, epoch int64) stmt {
	return stmt{`INSERT INTO @outbox (run, event, epoch, at, attempts, next) VALUES (?, ?, ?, {now}, 0, ?) ON CONFLICT DO NOTHING`,
		[]any{id, endOf + string(state) + " " + column(tool), epoch, int64(math.MaxInt64)}}
}

// endOf is the prefix of the event of an end that is to be counted.
const endOf = "#"

// Uncounted implements [durable.Store].
func (s *Store) Uncounted(ctx context.Context, n int) (ended []durable.Event, err error) {
	found, err := s.allUncounted(ctx, n)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	err = s.db.write(ctx, func(t tx) error {
		ended = nil
		for row, e := range found {
			got, err := t.exec(ctx, `DELETE FROM @outbox WHERE run = ? AND event = ? AND epoch = ?`, e.Run, row.event, e.Epoch)
			if err != nil {
				return err
			}
			if got == 1 { // else another process has it
				ended = append(ended, e)
			}
		}
		return nil
	})
	return ended, err
}

// rowOf is the key of a row of the outbox.
type rowOf struct{ run, event string }

func (s *Store) allUncounted(ctx context.Context, n int) (map[rowOf]durable.Event, error) {
	found := map[rowOf]durable.Event{}
	err := s.db.readOne(ctx, func(t snapshot) error {
		return t.query(ctx, `SELECT run, event, epoch, at FROM @outbox WHERE event LIKE ? LIMIT ?`, []any{endOf + "%", int64(n)}, func(scan func(...any) error) error {
			var e durable.Event
			var event string
			var at int64
			if err := scan(&e.Run, &event, &e.Epoch, &at); err != nil {
				return err
			}
			state, tool, _ := strings.Cut(strings.TrimPrefix(event, endOf), " ")
			e.State, e.Tool, e.At = durable.State(state), fromColumn(tool), fromMicros(at)
			found[rowOf{e.Run, event}] = e
			return nil
		})
	})
	return found, err
}
