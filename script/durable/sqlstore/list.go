package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// where is a WHERE clause: terms joined by AND.
type where struct {
	terms []string
	args  []any
}

func (w *where) and(term string, args ...any) {
	w.terms, w.args = append(w.terms, term), append(w.args, args...)
}

// in adds the term that the column has one of the states; no row matches when there are none.
func (w *where) in(name string, states []durable.State) {
	if len(states) == 0 {
		w.and("1 = 0")
		return
	}
	args := make([]any, len(states))
	for i, s := range states {
		args[i] = string(s)
	}
	w.and(name+` IN (?`+strings.Repeat(`, ?`, len(states)-1)+`)`, args...)
}

func (w *where) text() string {
	if len(w.terms) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.terms, " AND ")
}

// List implements [durable.Store].
func (s *Store) List(ctx context.Context, f durable.Filter) ([]durable.Summary, string, error) {
	w, err := listed(f)
	if err != nil {
		return nil, "", err
	}
	limit := cmp.Or(f.Limit, 100)
	var list []durable.Summary
	err = s.db.readOne(ctx, func(t snapshot) error {
		list = nil
		return t.query(ctx, `SELECT id, tool, principal, state, created, updated, wake, entries, doubts, result,
			(SELECT COUNT(*) FROM @questions WHERE run = id AND answer IS NULL) FROM @runs`+w.text()+` ORDER BY updated DESC, id DESC LIMIT ?`, append(w.args, int64(limit+1)),
			func(scan func(...any) error) error {
				r, err := s.summary(scan)
				list = append(list, r)
				return err
			})
	})
	if err != nil || len(list) <= limit {
		return list, "", err
	}
	last := list[limit-1]
	return list[:limit], fmt.Sprintf("%d.%s", micros(last.Updated), last.ID), nil
}

// listed is the WHERE clause of a filter.
func listed(f durable.Filter) (w where, err error) {
	if f.States != nil {
		w.in("state", f.States)
	}
	if f.Tool != "" {
		w.and(`tool = ?`, column(f.Tool))
	}
	if f.Principal != "" {
		w.and(`principal = ?`, column(f.Principal))
	}
	if !f.Since.IsZero() {
		w.and(`updated >= ?`, micros(f.Since))
	}
	if f.SealedBy != "" {
		w.and(`(' ' || keys || ' ') LIKE ('% ' || ? || ' %') ESCAPE '\'`, strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(column(f.SealedBy)))
	}
	if f.After != "" {
		at, id, _ := strings.Cut(f.After, ".")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return w, fmt.Errorf("the cursor %q was not returned by an earlier list", f.After)
		}
		w.and(`(updated < ? OR updated = ? AND id < ?)`, n, n, column(id))
	}
	return w, nil
}

func (s *Store) summary(scan func(...any) error) (r durable.Summary, err error) {
	var state, tool, principal, doubts string
	var created, updated, wake, entries, questions int64
	var result []byte
	if err := scan(&r.ID, &tool, &principal, &state, &created, &updated, &wake, &entries, &doubts, &result, &questions); err != nil {
		return r, err
	}
	r.Tool, r.Principal, r.State = fromColumn(tool), fromColumn(principal), durable.State(state)
	r.Created, r.Updated, r.Wake = fromMicros(created), fromMicros(updated), fromMicros(wake)
	r.Entries, r.Questions, r.Doubts = int(entries), int(questions), len(strings.Fields(doubts))
	if result == nil {
		return r, nil
	}
	j := stored{run: durable.Run{ID: r.ID, State: r.State}, result: result}
	if err := s.openResult(&j); err != nil {
		r.Error = err.Error()
		return r, nil
	}
	r.Error = j.run.Error
	return r, nil
}

// due finds the runs whose wake time has come, those that have expired and have no owner, and of each kind the next one, with
// the time until then. Each part is one range of an index; the time is read once, since a volatile function is no condition
// of an index.
const due = `WITH t AS MATERIALIZED (SELECT {now} AS now) SELECT id, MIN(at) - (SELECT now FROM t) FROM (
	SELECT * FROM (SELECT id, wake AS at FROM @runs WHERE state NOT IN ('done', 'failed', 'cancelled') AND wake > 0 AND wake <= (SELECT now FROM t) ORDER BY wake LIMIT ?) AS awake
	UNION ALL
	SELECT * FROM (SELECT id, wake AS at FROM @runs WHERE state NOT IN ('done', 'failed', 'cancelled') AND wake > (SELECT now FROM t) ORDER BY wake LIMIT 1) AS wakes
	UNION ALL
	SELECT * FROM (SELECT id, expires AS at FROM @runs WHERE state NOT IN ('done', 'failed', 'cancelled') AND expires > 0 AND expires <= (SELECT now FROM t) AND lease <= (SELECT now FROM t) ORDER BY expires LIMIT ?) AS expired
	UNION ALL
	SELECT * FROM (SELECT id, expires AS at FROM @runs WHERE state NOT IN ('done', 'failed', 'cancelled') AND expires > 0 AND expires > (SELECT now FROM t) AND lease <= (SELECT now FROM t) ORDER BY expires LIMIT 1) AS expires
) AS due GROUP BY id ORDER BY 2 LIMIT ?`

// Due implements [durable.Store].
func (s *Store) Due(ctx context.Context, n int) (ids []string, next time.Duration, err error) {
	most := int64(n + 1)
	err = s.db.readOne(ctx, func(t snapshot) error {
		ids, next = nil, -1
		return t.query(ctx, due, []any{most, most, most}, func(scan func(...any) error) error {
			var id string
			var in int64
			err := scan(&id, &in)
			switch {
			case in <= 0 && len(ids) < n:
				ids = append(ids, id)
			case next < 0:
				next = time.Duration(max(0, in)) * time.Microsecond
			}
			return err
		})
	})
	return ids, next, err
}

// Sealed implements [durable.Store].
func (s *Store) Sealed(ctx context.Context) (counts map[string]int, err error) {
	err = s.db.readOne(ctx, func(t snapshot) error {
		counts = map[string]int{}
		return t.query(ctx, `SELECT keys, COUNT(*) FROM @runs GROUP BY keys`, nil, func(scan func(...any) error) error {
			var keys string
			var n int64
			if err := scan(&keys, &n); err != nil {
				return err
			}
			for _, id := range strings.Fields(keys) {
				counts[fromColumn(id)] += int(n)
			}
			return nil
		})
	})
	return counts, err
}

// Stats implements [durable.Store].
func (s *Store) Stats(ctx context.Context) (st durable.Stats, err error) {
	err = s.db.readOne(ctx, func(t snapshot) error {
		st = durable.Stats{States: map[durable.State]int{}}
		for _, state := range durable.States {
			st.States[state] = 0
		}
		return t.query(ctx, `SELECT state, COUNT(*), MIN(updated) FROM @runs GROUP BY state`, nil, func(scan func(...any) error) error {
			var state string
			var n, oldest int64
			if err := scan(&state, &n, &oldest); err != nil {
				return err
			}
			st.States[durable.State(state)] = int(n)
			if durable.State(state) == durable.Waiting {
				st.OldestWaiting = fromMicros(oldest)
			}
			return nil
		})
	})
	return st, err
}
