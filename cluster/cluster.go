// Package cluster is what several processes over one PostgreSQL know of each other: who is there, which sessions have
// changed their owner, which backend runs a task. It knows neither HTTP nor MCP.
//
//	m, err := cluster.Join(ctx, cluster.Options{DB: db, Ring: ring, Address: "10.0.0.7:4485"})
//	defer m.Close()
//	addr, ok := m.Address(id)
//
// Each process is a replica with a random id. It writes a row with its address at every heartbeat, and reads those of the
// others: one whose row is older than three heartbeats, by the clock of the database, is gone. There is no leader, and
// replicas do not speak with each other here.
//
// A session belongs to the replica that its id names (package sessions of the proxy seals that), unless there is a row
// that names another one: whoever finds the owner gone adopts the session by a statement that one of many wins. The owner
// that comes back, and everybody else, learns of it at the next heartbeat.
//
// While the database is away, what was last read of the others counts for a minute, and nothing is adopted.
package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/postgres"
	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/seal"
)

var (
	// ErrUnavailable is that of a database that does not answer, or refuses.
	ErrUnavailable = errors.New("the shared store is not available")
	// ErrDeleted is returned for a session that is over.
	ErrDeleted = errors.New("the session is over")
	// ErrTooLarge is returned for a row that is larger than a replica may make it.
	ErrTooLarge = errors.New("too large for the shared store")
)

// An AdoptedError says that a session is another replica's.
type AdoptedError struct{ Owner string }

func (e *AdoptedError) Error() string { return "the session belongs to replica " + e.Owner }

// Options are what a replica brings along.
type Options struct {
	// DB is closed by Close.
	DB *postgres.DB
	// Ring seals what is secret in rows. Its keys may be replaced at any time.
	Ring *seal.Ring
	// Address is what the others dial.
	Address string
	// Heartbeat is the time between two; 2 s where it is 0.
	Heartbeat time.Duration
	// Log gets a line when replicas come and go, and when the database does; nil: nothing is logged.
	Log *slog.Logger
}

const (
	// silent is how many heartbeats a replica may miss.
	silent = 3
	// remembered is how long what was read last counts while the database is away.
	remembered = 60 * time.Second
	// within bounds one statement, connecting included.
	within = 5 * time.Second
	// channel is notified when replicas come and go and when a session changes its owner.
	channel = "vmcp_sessions"
	// pollEvery is how often is looked without a notification where heartbeats are rarer.
	pollEvery = 5 * time.Second
)

// Members are the replicas of a cluster as one of them sees them. They are safe for concurrent use.
type Members struct {
	*store
	o      Options
	self   string
	tokens *Tokens

	hash    atomic.Pointer[string] // of the configuration that is served
	view    atomic.Pointer[view]
	adopted atomic.Pointer[func(Adoption)]
	since   int64 // of the database's clock: what changed before is known. Only the loop has it
	beats   int   // only the loop has it

	wake   chan struct{} // asks for a heartbeat at once
	asked  chan chan error
	ended  chan struct{} // closed when there are no heartbeats any more
	stop   context.CancelFunc
	wg     sync.WaitGroup
	closed sync.Once

	mu      sync.Mutex
	changed chan struct{} // guarded by mu: closed when the view has changed
	away    error         // guarded by mu: why the last heartbeat failed
}

// Join makes the tables where they are missing and this process a replica.
func Join(ctx context.Context, o Options) (*Members, error) {
	if o.Heartbeat <= 0 {
		o.Heartbeat = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	shared := &store{db: o.DB, ring: o.Ring, log: o.Log}
	m := &Members{store: shared, o: o, self: runs.NewID(), tokens: newTokens(shared), wake: make(chan struct{}, 1), asked: make(chan chan error),
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
	if err := m.try(setup, "ask for the time", func(ctx context.Context) error {
		return m.db.QueryRow(ctx, m.sql(`SELECT {now}`)).Scan(&m.since)
	}); err != nil {
		return nil, err
	}
	m.announce(setup)
	ctx, m.stop = context.WithCancel(context.Background())
	m.wg.Go(func() { m.db.Watch(ctx, channel, m.self, max(pollEvery, o.Heartbeat), m.poke) })
	m.wg.Go(func() { m.live(ctx) })
	return m, nil
}

// Self is the id of this replica: new for each process.
func (m *Members) Self() string { return m.self }

// Advertised is the address that the others dial.
func (m *Members) Advertised() string { return m.o.Address }

// Heartbeat is the time between two.
func (m *Members) Heartbeat() time.Duration { return m.o.Heartbeat }

// Ring is the ring that was given.
func (m *Members) Ring() *seal.Ring { return m.o.Ring }

// Schema names the cluster: one cluster is one schema.
func (m *Members) Schema() string { return m.db.Schema }

// Serves tells the others the hash of the configuration that is served.
func (m *Members) Serves(hash string) {
	m.hash.Store(&hash)
	m.poke()
}

// OnAdoption makes f be called for each session that another replica has adopted or deleted, also when it
// was none of this one's. It may be called more than once for the same adoption, and must not wait.
func (m *Members) OnAdoption(f func(Adoption)) { m.adopted.Store(&f) }

// Leave takes this replica's row out: from now on the others take it for gone. Heartbeats end.
func (m *Members) Leave() {
	m.closed.Do(func() {
		m.stop()
		m.wg.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		err := m.try(ctx, "leave", func(ctx context.Context) error {
			_, err := m.db.Exec(ctx, m.sql(`DELETE FROM @replicas WHERE id = $1`), m.self)
			return err
		})
		if err != nil {
			m.log.Warn("this replica could not take its row out: the others miss it in "+(silent*m.o.Heartbeat).String(), "err", err)
			return
		}
		m.announce(ctx)
	})
}

// Close leaves and closes the database.
func (m *Members) Close() {
	m.Leave()
	m.db.Close()
}

// Ping says why the database does not answer; nil when it does.
func (m *Members) Ping(ctx context.Context) error {
	return m.try(ctx, "ping", m.db.Ping)
}

// announce tells the others to look.
func (m *Members) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, _ = m.db.Exec(ctx, `SELECT pg_notify('`+channel+`', $1)`, m.self) // they look by themselves, too
}
