package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// Replica is one process of a cluster.
type Replica struct {
	ID      string
	Address string        // what the other replicas dial
	Config  string        // hash of the configuration that it serves; "" before the first
	Keys    []string      // ids of its keys; the first one seals
	Silent  time.Duration // time since its last heartbeat, at the moment of reading

	checks []byte // a check value of each key, sha256.Size bytes each
	keyed  int64  // when its keys last changed, in microseconds
}

// view is what a replica knows of all replicas, itself included. It is immutable.
type view struct {
	read time.Time
	all  []Replica          // those alive, sorted by id
	by   map[string]Replica // the same, by id
	keys error              // why the keys of this replica do not match those of another
}

// Replicas are the replicas that are alive, this one included, sorted by id.
func (m *Members) Replicas() []Replica { return m.view.Load().all }

// Live is the number of replicas that are alive, at least 1. While the database is away it keeps its last value.
func (m *Members) Live() int { return max(1, len(m.view.Load().all)) }

// Address is where a replica is dialled; ok is false for one that is gone, and for all once the database has been away
// for a minute.
func (m *Members) Address(id string) (addr string, ok bool) {
	v := m.view.Load()
	if time.Since(v.read) > clusterRemembered {
		return "", false
	}
	r, ok := v.by[id]
	return r.Address, ok
}

// Keys says why this replica's keys do not match those of a replica that has had its keys for longer: one of them
// cannot open what the other seals. nil when all match.
func (m *Members) Keys() error { return m.view.Load().keys }

// Configurations are the hashes of the configurations that replicas serve, each with the number of replicas. More than
// one means that a rollout is in progress or has failed.
func (m *Members) Configurations() map[string]int {
	found := map[string]int{}
	for _, r := range m.Replicas() {
		if r.Config != "" {
			found[r.Config]++
		}
	}
	return found
}

// Away is the error of the last heartbeat; nil if it was written.
func (m *Members) Away() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.away
}

// Changed is closed at the next change: a replica joins, leaves, or changes its address, configuration or keys.
func (m *Members) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// beatNow requests a heartbeat at once.
func (m *Members) beatNow() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Refresh writes a heartbeat now, which reads the replicas that are alive and the sessions that were adopted.
func (m *Members) Refresh(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case m.asked <- done:
	case <-m.ended:
		return errLeft
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errLeft is returned by a replica that has left the cluster.
var errLeft = fmt.Errorf("%w: this replica has left", ErrUnavailable)

// beatUntil writes heartbeats until ctx ends.
func (m *Members) beatUntil(ctx context.Context) {
	defer close(m.ended)
	tick := time.NewTicker(m.o.Heartbeat)
	defer tick.Stop()
	for {
		var asked chan error
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-m.wake:
		case asked = <-m.asked:
		}
		err := m.beat(ctx)
		if asked != nil {
			asked <- err
		}
		m.noteAway(ctx, err)
		if m.beats++; m.beats%cleanEvery == 0 && err == nil {
			m.clean(ctx)
		}
	}
}

// noteAway logs when the database becomes unavailable and when it is back.
func (m *Members) noteAway(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	before := m.away
	m.away = err
	m.mu.Unlock()
	switch {
	case err != nil && before == nil:
		m.log.Warn("the shared store does not answer: the replicas known so far count for another minute, and no session is adopted", "err", err)
	case err == nil && before != nil:
		m.log.Info("the shared store answers again", "replicas", m.Live())
	}
}

// beat writes this replica's row and reads those of the others, by the clock of the database, and the sessions that these
// have adopted, in one round trip. A statement does not see its own insertion, so the own row comes from RETURNING.
func (m *Members) beat(ctx context.Context) error {
	checks, ids := m.checks()
	self := Replica{ID: m.self, Address: m.o.Address, Config: *m.hash.Load(), Keys: ids, checks: checks}
	var all []Replica
	var offset time.Duration
	var n news
	err := m.try(ctx, "heartbeat", func(ctx context.Context) error {
		all = all[:0]
		began := m.o.Clock()
		var b pgx.Batch
		b.Queue(m.sql(`WITH t AS MATERIALIZED (SELECT {now} AS now), me AS (
			INSERT INTO @replicas AS r (id, address, seen, config, keys, checks, keyed) SELECT $1::text, $2::text, t.now, $3::text, $4::text, $5::bytea, t.now FROM t
			ON CONFLICT (id) DO UPDATE SET address = EXCLUDED.address, seen = EXCLUDED.seen, config = EXCLUDED.config, keys = EXCLUDED.keys, checks = EXCLUDED.checks,
				keyed = CASE WHEN r.checks = EXCLUDED.checks THEN r.keyed ELSE EXCLUDED.keyed END
			RETURNING id, address, seen, config, keys, checks, keyed)
			SELECT me.id, me.address, 0::bigint, me.config, me.keys, me.checks, me.keyed, t.now FROM me, t
			UNION ALL SELECT r.id, r.address, t.now - r.seen, r.config, r.keys, r.checks, r.keyed, t.now FROM @replicas r, t WHERE r.id <> $1 AND t.now - r.seen < $6`),
			m.self, m.o.Address, self.Config, strings.Join(ids, " "), checks, (silent * m.o.Heartbeat).Microseconds())
		if m.adopted.Load() != nil {
			b.Queue(m.sql(adoptions), m.since-overlap, "", newsMost)
		}
		results := m.db.SendBatch(ctx, &b)
		defer results.Close()
		rows, err := results.Query()
		if err != nil {
			return err
		}
		var r Replica
		var age, now int64
		var keys string
		_, err = pgx.ForEachRow(rows, []any{&r.ID, &r.Address, &age, &r.Config, &keys, &r.checks, &r.keyed, &now}, func() error {
			r.Silent, r.Keys = time.Duration(age)*time.Microsecond, strings.Fields(keys)
			all = append(all, r)
			r.checks = nil
			return nil
		})
		ended := m.o.Clock()
		offset = time.UnixMicro(now).Sub(began.Round(0).Add(ended.Sub(began) / 2))
		if err != nil || b.Len() == 1 {
			return err
		}
		if rows, err = results.Query(); err != nil {
			return err
		}
		return n.read(rows)
	})
	if err != nil {
		return err
	}
	m.setClock(offset)
	m.setView(all)
	return m.deliver(ctx, n)
}

// checks are the check values of the keys, concatenated, and the keys' ids. Replicas with the same schema and key have
// the same check value.
func (m *Members) checks() (all []byte, ids []string) {
	for _, mac := range m.o.Ring.MACs(durable.Check, []byte(m.db.Schema)) {
		all = append(all, mac...)
	}
	return all, m.o.Ring.IDs()
}

// setView replaces the view, and closes changed if more than times differ.
func (m *Members) setView(all []Replica) {
	slices.SortFunc(all, func(a, b Replica) int { return cmp.Compare(a.ID, b.ID) })
	now := &view{read: time.Now(), all: all, by: map[string]Replica{}}
	for _, r := range all {
		now.by[r.ID] = r
	}
	now.keys = mismatch(now.by[m.self], all)
	before := m.view.Swap(now)
	if same(before, now) {
		return
	}
	m.logChanges(before, now)
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.changed = make(chan struct{})
}

// same reports whether two views differ in times only.
func same(a, b *view) bool {
	return slices.EqualFunc(a.all, b.all, func(x, y Replica) bool {
		return x.ID == y.ID && x.Address == y.Address && x.Config == y.Config && bytes.Equal(x.checks, y.checks)
	}) && (a.keys == nil) == (b.keys == nil)
}

// logChanges logs which replicas have joined and left, and whether the keys match.
func (m *Members) logChanges(before, now *view) {
	for _, r := range now.all {
		if _, known := before.by[r.ID]; !known && r.ID != m.self {
			m.log.Info("replica joined", "peer", r.ID, "address", r.Address, "replicas", len(now.all))
		}
	}
	for _, r := range before.all {
		if _, there := now.by[r.ID]; !there && r.ID != m.self {
			m.log.Info("replica left", "peer", r.ID, "address", r.Address, "replicas", len(now.all))
		}
	}
	switch {
	case now.keys != nil && before.keys == nil:
		m.log.Error("this replica is not ready", "err", now.keys)
	case now.keys == nil && before.keys != nil:
		m.log.Info("the keys of all replicas match")
	}
}

// mismatch finds a replica whose keys do not match those of self. The replica that has had its keys for longer counts
// as right: a process that starts with a wrong secret must not make the others unready.
func mismatch(self Replica, all []Replica) error {
	for _, r := range all {
		if r.ID == self.ID || r.keyed > self.keyed || r.keyed == self.keyed && r.ID > self.ID || r.opens(self) && self.opens(r) {
			continue
		}
		return fmt.Errorf("sessionStorage.keys: replica %s at %s has other keys (%s) than this one (%s): what one of them seals the other cannot open; give all replicas the same keys, and add a new key behind the old ones first",
			r.ID, r.Address, strings.Join(r.Keys, ", "), strings.Join(self.Keys, ", "))
	}
	return nil
}

// opens reports whether r has the key with which other seals.
func (r Replica) opens(other Replica) bool {
	if len(other.checks) < sha256.Size {
		return false
	}
	for check := range slices.Chunk(r.checks, sha256.Size) {
		if bytes.Equal(check, other.checks[:sha256.Size]) {
			return true
		}
	}
	return false
}
