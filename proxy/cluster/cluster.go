// Package cluster is the membership and the shared state of several processes over one PostgreSQL schema: which
// replicas are alive, which sessions have changed owner, which backend runs a task. It knows neither HTTP nor MCP.
//
//	m, err := cluster.Join(ctx, cluster.Options{DB: db, Ring: ring, Address: "10.0.0.7:4485"})
//	defer m.Close()
//	addr, ok := m.Address(id)
//
// Each process is a replica with a random id. At every heartbeat it writes a row with its address and reads those of
// the others: a replica whose row is older than three heartbeats, by the clock of the database, is gone. There is no
// leader, and replicas do not connect to each other here (peers.go does).
//
// A session belongs to the replica that its id names (package proxy/edge, ids.go), unless a row names another one. A
// replica that finds the owner gone adopts the session by a statement that only one replica wins. The previous owner,
// and all others, read of the adoption at their next heartbeat (OnAdoption).
//
// While the database is away, the last view of the others is used for a minute, and no session is adopted.
package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/postgres"
	"github.com/vmcp-dev/vmcp/script/durable"
)

var (
	// ErrUnavailable is wrapped by errors of a database that does not answer, or that refuses a statement.
	ErrUnavailable = errors.New("the shared store is not available")
	// ErrDeleted is returned for a session that has ended.
	ErrDeleted = errors.New("the session is over")
	// ErrTooLarge is wrapped by the error for a row above its size limit.
	ErrTooLarge = errors.New("too large for the shared store")
)

// An AdoptedError says that another replica owns the session.
type AdoptedError struct{ Owner string }

func (e *AdoptedError) Error() string { return "the session belongs to replica " + e.Owner }

// Options configure a replica.
type Options struct {
	// DB is the database; Close closes it.
	DB *postgres.DB
	// Ring seals secrets in rows. Its keys may be replaced at any time.
	Ring *durable.Ring
	// Address is the host:port that the other replicas dial.
	Address string
	// Heartbeat is the interval between heartbeats; 2 s if it is 0.
	Heartbeat time.Duration
	// Clock is the clock of this machine; time.Now if it is nil.
	Clock func() time.Time
	// Log gets a line when replicas join and leave, and when the database goes away and returns; nil: nothing is
	// logged.
	Log *slog.Logger
}

const (
	// silent is the number of heartbeats after which a replica without one counts as gone.
	silent = 3
	// clusterRemembered is how long the last view is used while the database is away.
	clusterRemembered = 60 * time.Second
	// within bounds one statement, including connecting.
	within = 5 * time.Second
	// leaveWithin bounds the deletion of this replica's row at shutdown: without it the others notice after silent
	// heartbeats, and a supervisor does not wait for long.
	leaveWithin = time.Second
	// channel is the PostgreSQL channel on which joining, leaving and changes of a session's owner are notified.
	channel = "vmcp_sessions"
	// listenEvery is the longest time between two looks at the connection for notifications: what they are about is read
	// with each heartbeat as well.
	listenEvery = time.Minute
)

// Members are the replicas of a cluster as this one sees them. Safe for concurrent use.
type Members struct {
	*store
	o      Options
	self   string
	tokens *Tokens

	hash    atomic.Pointer[string] // of the configuration that this replica serves
	view    atomic.Pointer[view]
	adopted atomic.Pointer[func(Adoption)]
	offset  atomic.Int64 // how far the database's clock is ahead of this machine's, in nanoseconds
	since   int64        // change time up to which adoptions were read, by the database's clock; only beatUntil uses it
	beats   int          // only beatUntil uses it

	wake   chan struct{} // requests a heartbeat at once
	asked  chan chan error
	ended  chan struct{} // closed when heartbeats have ended
	stop   context.CancelFunc
	wg     sync.WaitGroup
	closed sync.Once

	mu      sync.Mutex
	changed chan struct{} // guarded by mu; closed when the view has changed
	away    error         // guarded by mu; why the last heartbeat failed
}

// Join creates the tables where they are missing, writes the first heartbeat and starts the goroutine for further ones.
// Close or Leave ends it.
func Join(ctx context.Context, o Options) (*Members, error) {
	if o.Heartbeat <= 0 {
		o.Heartbeat = 2 * time.Second
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	shared := &store{db: o.DB, ring: o.Ring, log: o.Log}
	m := &Members{store: shared, o: o, self: durable.NewID(), tokens: newTokens(shared), wake: make(chan struct{}, 1), asked: make(chan chan error),
		ended: make(chan struct{}), changed: make(chan struct{})}
	m.hash.Store(new(string))
	m.view.Store(&view{read: time.Now(), by: map[string]Replica{}})
	setup, cancel := context.WithTimeout(ctx, 4*within)
	defer cancel()
	if err := m.migrate(setup); err != nil {
		return nil, err
	}
	if err := m.beat(setup); err != nil {
		return nil, err
	}
	if err := m.try(setup, "read the clock", func(ctx context.Context) error {
		return m.db.QueryRow(ctx, m.sql(`SELECT {now}`)).Scan(&m.since)
	}); err != nil {
		return nil, err
	}
	m.announce(setup)
	ctx, m.stop = context.WithCancel(context.Background())
	m.wg.Go(func() { m.db.Watch(ctx, channel, m.self, listenEvery, m.beatNow) })
	m.wg.Go(func() { m.beatUntil(ctx) })
	return m, nil
}

// Self is the random id of this process as a replica.
func (m *Members) Self() string { return m.self }

// Advertised is the address that the other replicas dial.
func (m *Members) Advertised() string { return m.o.Address }

// Heartbeat is the interval between heartbeats.
func (m *Members) Heartbeat() time.Duration { return m.o.Heartbeat }

// Ring is Options.Ring.
func (m *Members) Ring() *durable.Ring { return m.o.Ring }

// Schema identifies the cluster: all its replicas use the same schema.
func (m *Members) Schema() string { return m.db.Schema }

// Serves publishes the hash of the configuration that this replica serves.
func (m *Members) Serves(hash string) {
	m.hash.Store(&hash)
	m.beatNow()
}

// OnAdoption sets the function that is called for each session that another replica has adopted or ended, whoever owned
// it before. It may be called more than once for the same adoption, and must not block.
func (m *Members) OnAdoption(f func(Adoption)) { m.adopted.Store(&f) }

// Leave ends the heartbeats and deletes this replica's row, so that the others see it as gone at once.
func (m *Members) Leave() {
	m.closed.Do(func() {
		m.stop()
		m.wg.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
		defer cancel()
		err := m.try(ctx, "leave", func(ctx context.Context) error {
			_, err := m.db.Exec(ctx, m.sql(`DELETE FROM @replicas WHERE id = $1`), m.self)
			return err
		})
		if err != nil {
			m.log.Warn("this replica's row could not be deleted: the others will notice that it has left in "+(silent*m.o.Heartbeat).String(), "err", err)
			return
		}
		m.announce(ctx)
	})
}

// Close leaves the cluster and closes the database.
func (m *Members) Close() {
	m.Leave()
	m.db.Close()
}

// Ping returns why the database does not answer; nil if it does.
func (m *Members) Ping(ctx context.Context) error {
	return m.try(ctx, "ping", m.db.Ping)
}

// announce notifies the other replicas to read the tables now.
func (m *Members) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, _ = m.db.Exec(ctx, `SELECT pg_notify('`+channel+`', $1)`, m.self) // without it they read at their next heartbeat
}
