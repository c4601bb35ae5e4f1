//go:build unix && suites

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/internal/postgres"
	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy/cluster"
	"github.com/vmcp-dev/vmcp/script/durable"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
)

// heartbeat is the interval of the tests.
const heartbeat = 2 * time.Second

// keys makes a ring with one key for each letter.
func keys(t *testing.T, letters string) *durable.Ring {
	t.Helper()
	r, err := durable.NewSeal(ringOf(letters))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ringOf(letters string) (all []durable.Key) {
	for _, c := range letters {
		all = append(all, durable.Key{ID: string(c), Secret: bytes.Repeat([]byte{byte(c)}, 32)})
	}
	return all
}

// join makes a replica of a schema that leaves at the end of the test.
func join(t *testing.T, server *runstest.Server, schema string, ring *durable.Ring) *cluster.Members {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL(), Schema: schema, MaxConnections: 6})
	if err != nil {
		t.Fatal(err)
	}
	m, err := cluster.Join(t.Context(), cluster.Options{DB: db, Ring: ring, Address: "10.0.0.1:1", Heartbeat: heartbeat})
	if err != nil {
		db.Close()
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until m's view satisfies a condition.
func eventually(t *testing.T, m *cluster.Members, what string, ok func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		changed := m.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%s: not within a minute; replicas %+v, keys %v", what, m.Replicas(), m.Keys())
		}
	}
}

func TestCluster(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T, *runstest.Server, string)
	}{
		{"members", testMembers}, {"keys", testKeys}, {"rows", testRows}, {"adoption", testAdoption}, {"race", testAdoptionRace},
		{"tasks", testTasks}, {"versions", testVersions},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, server, "s_"+tt.name)
		})
	}
}

// Replicas see each other at once, and no longer once they have left.
func testMembers(t *testing.T, server *runstest.Server, schema string) {
	a, b := join(t, server, schema, keys(t, "a")), join(t, server, schema, keys(t, "a"))
	c := join(t, server, schema, keys(t, "a"))
	join(t, server, schema+"_other", keys(t, "z")) // another schema is another cluster
	for _, m := range []*cluster.Members{a, b, c} {
		eventually(t, m, "three replicas", func() bool { return m.Live() == 3 })
	}
	if addr, ok := a.Address(b.Self()); addr != "10.0.0.1:1" || !ok {
		t.Errorf("Address = %q, %v", addr, ok)
	}
	if addr, ok := a.Address("nobody"); addr != "" || ok {
		t.Errorf("Address of nobody = %q, %v", addr, ok)
	}
	a.Serves("sha256:1")
	b.Serves("sha256:1")
	c.Serves("sha256:2")
	eventually(t, a, "configurations", func() bool { return cmp.Equal(a.Configurations(), map[string]int{"sha256:1": 2, "sha256:2": 1}) })
	c.Leave()
	eventually(t, a, "two replicas", func() bool { return a.Live() == 2 })
	if _, ok := a.Address(c.Self()); ok {
		t.Error("a replica that has left has an address")
	}
	if err := c.Refresh(t.Context()); err == nil {
		t.Error("Refresh of a replica that has left succeeds")
	}
}

// Of two replicas with different keys the younger reports it, and keys may be replaced.
func testKeys(t *testing.T, server *runstest.Server, schema string) {
	ringA, ringB := keys(t, "a"), keys(t, "b")
	a := join(t, server, schema, ringA)
	b := join(t, server, schema, ringB)
	if b.Keys() == nil {
		t.Error("Keys of the younger replica, which has other keys, is nil")
	}
	eventually(t, a, "two replicas", func() bool { return a.Live() == 2 })
	if err := a.Keys(); err != nil {
		t.Errorf("the older replica: %v", err)
	}
	must(t, ringB.Replace(ringOf("ab")))
	must(t, b.Refresh(t.Context()))
	if err := b.Keys(); err != nil {
		t.Errorf("keys a, b beside a: %v", err)
	}
	must(t, ringA.Replace(ringOf("ba"))) // a seals with b now
	must(t, a.Refresh(t.Context()))
	must(t, b.Refresh(t.Context()))
	if a.Keys() != nil || b.Keys() != nil {
		t.Errorf("keys b, a beside a, b: %v, %v", a.Keys(), b.Keys())
	}
	must(t, ringB.Replace([]durable.Key{{ID: "b", Secret: bytes.Repeat([]byte{1}, 32)}})) // the same name, another key
	must(t, b.Refresh(t.Context()))
	if err := b.Keys(); err == nil {
		t.Error("Keys does not report another key of the same id")
	}
}

var full = cluster.State{
	Level: "debug", Subscriptions: []string{"file:///a", "file:///b"}, Backends: map[string]string{"shop": "secret-session"}, Extra: []byte(`{"x":1}`),
}

// The state of a session can be read by its next owner, is sealed, and can no longer be written by the previous one.
func testRows(t *testing.T, server *runstest.Server, schema string) {
	a, b := join(t, server, schema, keys(t, "a")), join(t, server, schema, keys(t, "ba"))
	ctx := t.Context()
	if _, ok, err := a.Session(ctx, "s1"); ok || err != nil {
		t.Errorf("a session without a row: %v, %v", ok, err)
	}
	must(t, a.Save(ctx, cluster.Row{ID: "s1", State: full}, time.Hour))
	r, err := b.Adopt(ctx, "s1", a.Self(), time.Hour)
	must(t, err)
	if diff := cmp.Diff(cluster.Row{ID: "s1", Owner: b.Self(), Epoch: 1, State: full}, r); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
	var adopted *cluster.AdoptedError
	if err := a.Save(ctx, cluster.Row{ID: "s1"}, time.Hour); !errors.As(err, &adopted) || adopted.Owner != b.Self() {
		t.Errorf("Save of the old owner: %v", err)
	}
	r.State.Level = "error"
	must(t, b.Save(ctx, r, time.Hour))
	must(t, b.Touch(ctx, []string{"s1"}, time.Hour))
	must(t, b.Delete(ctx, "s1", time.Hour))
	for name, err := range map[string]error{
		"Save": b.Save(ctx, r, time.Hour), "Adopt": second(a.Adopt(ctx, "s1", b.Self(), time.Hour)),
	} {
		if !errors.Is(err, cluster.ErrDeleted) {
			t.Errorf("%s of a deleted session: %v", name, err)
		}
	}
	must(t, a.Delete(ctx, "s2", time.Hour)) // one that had no row
	if r, ok, err := b.Session(ctx, "s2"); !ok || !r.Deleted || err != nil {
		t.Errorf("a deleted session: %+v, %v, %v", r, ok, err)
	}
	must(t, a.Save(ctx, cluster.Row{ID: "s3", State: full}, -time.Second))
	if _, err := b.Adopt(ctx, "s3", a.Self(), time.Hour); !errors.Is(err, cluster.ErrDeleted) {
		t.Errorf("Adopt of a session that has expired: %v", err)
	}
	if err := a.Save(ctx, cluster.Row{ID: "s4", State: cluster.State{Level: string(make([]byte, 1<<20))}}, time.Hour); !errors.Is(err, cluster.ErrTooLarge) {
		t.Errorf("Save of 1 MiB: %v", err)
	}
	must(t, b.Save(ctx, cluster.Row{ID: "s5", State: full}, time.Hour)) // sealed by b, which a has not
	must(t, a.Tokens().PutToken(ctx, "shop", "alice", []byte(`{}`)))
	sealed, err := a.Tokens().Sealed(ctx)
	must(t, err)
	if diff := cmp.Diff(cluster.Sealed{Sessions: map[string]int{"b": 1}, Logins: map[string]int{"a": 1}}, sealed); diff != "" {
		t.Errorf("keys in use (-want +got):\n%s", diff)
	}
	var unknown *durable.UnknownKeyError
	if _, err := a.Adopt(ctx, "s5", b.Self(), time.Hour); !errors.As(err, &unknown) || unknown.ID != "b" {
		t.Errorf("Adopt of what another key has sealed: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// A previous owner that is back is notified of the adoptions of its sessions, also of those adopted twice or ended.
func testAdoption(t *testing.T, server *runstest.Server, schema string) {
	a, b, c := join(t, server, schema, keys(t, "a")), join(t, server, schema, keys(t, "a")), join(t, server, schema, keys(t, "a"))
	ctx := t.Context()
	var mu sync.Mutex
	heard := map[string]cluster.Adoption{}
	news := make(chan struct{}, 100)
	a.OnAdoption(func(x cluster.Adoption) {
		mu.Lock()
		heard[x.Session] = x
		mu.Unlock()
		select {
		case news <- struct{}{}:
		default:
		}
	})
	must(t, second(b.Adopt(ctx, "s1", a.Self(), time.Hour)))
	must(t, second(c.Adopt(ctx, "s1", b.Self(), time.Hour)))
	must(t, second(b.Adopt(ctx, "s2", a.Self(), time.Hour)))
	must(t, b.Delete(ctx, "s3", time.Hour))
	must(t, second(a.Adopt(ctx, "s4", "gone", time.Hour))) // its own is no news
	want := map[string]cluster.Adoption{
		"s1": {Session: "s1", Owner: c.Self(), Epoch: 2}, "s2": {Session: "s2", Owner: b.Self(), Epoch: 1},
		"s3": {Session: "s3", Owner: b.Self(), Epoch: 1, Deleted: true},
	}
	late := time.After(time.Minute)
	for {
		mu.Lock()
		diff := cmp.Diff(want, heard)
		mu.Unlock()
		if diff == "" {
			break
		}
		select {
		case <-news:
		case <-late:
			t.Fatalf("adoptions (-want +got):\n%s", diff)
		}
	}
	if r, err := b.Adopt(ctx, "s1", a.Self(), time.Hour); err != nil || r.Owner != c.Self() {
		t.Errorf("Adopt from an owner that has it no more: %+v, %v", r, err)
	}
}

// Of several replicas that adopt one session at once exactly one wins, and all of them learn which. Repeated with
// random numbers of rivals, rounds and concurrent writers or deletions, and compared with what is possible.
func testAdoptionRace(t *testing.T, server *runstest.Server, schema string) {
	const replicas = 3
	var all [replicas]*cluster.Members
	for i := range all {
		all[i] = join(t, server, schema, keys(t, "a"))
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range 150 {
		id, from := fmt.Sprint("s", round), "gone"
		owned := random.IntN(2) == 0
		if owned { // the owner is slow, not gone, and saves
			from = all[0].Self()
			must(t, all[0].Save(t.Context(), cluster.Row{ID: id, State: full}, time.Hour))
		}
		ends := random.IntN(4) == 0
		var overs atomic.Int32
		owners := make(chan string, 64)
		var wg sync.WaitGroup
		for range 2 + random.IntN(6) {
			m := all[1+random.IntN(replicas-1)]
			wg.Go(func() {
				r, err := m.Adopt(t.Context(), id, from, time.Hour)
				switch {
				case errors.Is(err, cluster.ErrDeleted):
					overs.Add(1)
				case err != nil:
					t.Errorf("seed %d, round %d: %v", seed, round, err)
				default:
					owners <- r.Owner
					if r.Epoch != 1 || owned && r.State.Level != "debug" {
						t.Errorf("seed %d, round %d: %+v", seed, round, r)
					}
				}
			})
		}
		if owned {
			wg.Go(func() {
				err := all[0].Save(t.Context(), cluster.Row{ID: id, State: full}, time.Hour)
				var lost *cluster.AdoptedError
				if err != nil && !errors.As(err, &lost) && !errors.Is(err, cluster.ErrDeleted) {
					t.Errorf("seed %d, round %d: Save: %v", seed, round, err)
				}
			})
		}
		if ends {
			wg.Go(func() {
				if err := all[0].Delete(t.Context(), id, time.Hour); err != nil {
					t.Errorf("seed %d, round %d: Delete: %v", seed, round, err)
				}
			})
		}
		wg.Wait()
		close(owners)
		first := ""
		for o := range owners {
			if first != "" && o != first {
				t.Errorf("seed %d, round %d: two owners, %s and %s", seed, round, first, o)
			}
			first = o
		}
		r, _, err := all[0].Session(t.Context(), id)
		must(t, err)
		switch {
		case r.Deleted != ends:
			t.Errorf("seed %d, round %d: deleted %v, want %v", seed, round, r.Deleted, ends)
		case !ends && (r.Owner != first || first == all[0].Self() || overs.Load() > 0):
			t.Errorf("seed %d, round %d: the row is %+v, Adopt returned %s, %d times ErrDeleted", seed, round, r, first, overs.Load())
		}
	}
}

// A task is found by every replica, and only for its principal.
func testTasks(t *testing.T, server *runstest.Server, schema string) {
	a, b := join(t, server, schema, keys(t, "a")), join(t, server, schema, keys(t, "a"))
	task := cluster.Task{Principal: "alice", ID: "t1", Backend: "shop", Tool: "order", Session: "s1"}
	must(t, a.PutTask(t.Context(), task, time.Hour))
	must(t, a.PutTask(t.Context(), cluster.Task{Principal: "bob", ID: "t1", Backend: "mail", Tool: "send"}, time.Hour))
	must(t, a.PutTask(t.Context(), cluster.Task{Principal: "alice", ID: "t2", Backend: "shop", Tool: "order"}, -time.Second))
	got, ok, err := b.Task(t.Context(), "alice", "t1")
	if err != nil || !ok || got != task {
		t.Errorf("Task = %+v, %v, %v", got, ok, err)
	}
	for _, of := range [][2]string{{"carol", "t1"}, {"alice", "t2"}, {"", "t1"}} {
		if got, ok, err := b.Task(t.Context(), of[0], of[1]); ok || err != nil {
			t.Errorf("Task of %q = %+v, %v, %v", of, got, ok, err)
		}
	}
}

// A program of the previous version works with newer tables that are compatible, and refuses others.
func testVersions(t *testing.T, server *runstest.Server, schema string) {
	join(t, server, schema, keys(t, "a"))
	db, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL(), Schema: schema})
	must(t, err)
	defer db.Close()
	set := func(name string, value int) {
		_, err := db.Exec(t.Context(), `UPDATE `+schema+`.meta SET value = $1 WHERE name = $2`, value, name)
		must(t, err)
	}
	set("cluster", 99)
	join(t, server, schema, keys(t, "a"))
	set("cluster_compatible", 99)
	if _, err := cluster.Join(t.Context(), cluster.Options{DB: db, Ring: keys(t, "a"), Address: "x:1"}); err == nil || !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("tables that are too new: %v", err)
	}
}

// While the database is away the last view is used and nothing is adopted; afterwards everything works again.
func TestStoreAway(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	a, b := join(t, server, "vmcp", keys(t, "a")), join(t, server, "vmcp", keys(t, "a"))
	eventually(t, a, "two replicas", func() bool { return a.Live() == 2 })
	server.Down(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.Refresh(ctx); !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("Refresh without the database: %v", err)
	}
	if addr, ok := a.Address(b.Self()); !ok || addr == "" || a.Live() != 2 {
		t.Errorf("without the database: %q, %v, %d replicas; want those of before", addr, ok, a.Live())
	}
	for what, err := range map[string]error{
		"Adopt": second(a.Adopt(ctx, "s1", b.Self(), time.Hour)), "Save": a.Save(ctx, cluster.Row{ID: "s1"}, time.Hour),
		"Delete": a.Delete(ctx, "s1", time.Hour), "Ping": a.Ping(ctx),
	} {
		if !errors.Is(err, cluster.ErrUnavailable) {
			t.Errorf("%s without the database: %v", what, err)
		}
	}
	server.Up(t)
	// Connections that died while nobody used them: the first statement goes over a fresh one.
	if r, err := a.Adopt(t.Context(), "s1", "gone", time.Hour); err != nil || r.Owner != a.Self() {
		t.Errorf("Adopt over connections that have died: %+v, %v", r, err)
	}
	must(t, b.Refresh(t.Context()))
	if b.Live() != 2 {
		must(t, a.Refresh(t.Context()))
		must(t, b.Refresh(t.Context()))
	}
	if b.Live() != 2 {
		t.Errorf("%d replicas behind the outage, want 2", b.Live())
	}
}

// A suspended database accepts connections and sends nothing: callers get an error in time, the last view is used, and
// once the database continues everything works again, without a second owner.
func TestStoreStandsStill(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	a, b := join(t, server, "vmcp", keys(t, "a")), join(t, server, "vmcp", keys(t, "a"))
	eventually(t, a, "two replicas", func() bool { return a.Live() == 2 })
	server.Signal(t, syscall.SIGSTOP)
	stopped := true
	defer func() {
		if stopped {
			server.Signal(t, syscall.SIGCONT)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, do := range []func() error{
		func() error { return a.Save(ctx, cluster.Row{ID: "s1"}, time.Hour) },
		func() error { return second(b.Adopt(ctx, "s1", a.Self(), time.Hour)) },
		func() error { _, _, err := a.Task(ctx, "alice", "t1"); return err },
		func() error { return second(a.Tokens().Token(ctx, "shop", "alice")) },
		func() error { return a.Ping(ctx) },
	} {
		wg.Go(func() {
			if err := do(); !errors.Is(err, cluster.ErrUnavailable) {
				t.Errorf("a suspended store: %v", err)
			}
		})
	}
	wg.Wait() // each is bounded by itself
	if ctx.Err() != nil {
		t.Fatal("nobody was notified in a minute")
	}
	if _, ok := a.Address(b.Self()); !ok || a.Live() != 2 {
		t.Errorf("with a suspended store: %d replicas, the other one known: %v", a.Live(), ok)
	}
	server.Signal(t, syscall.SIGCONT)
	stopped = false
	must(t, a.Refresh(t.Context()))
	must(t, b.Refresh(t.Context()))
	r, err := b.Adopt(t.Context(), "s1", a.Self(), time.Hour)
	must(t, err)
	if r.Owner != b.Self() {
		t.Errorf("adopted behind the stop: %+v", r)
	}
	var lost *cluster.AdoptedError
	if err := a.Save(t.Context(), cluster.Row{ID: "s1"}, time.Hour); !errors.As(err, &lost) || lost.Owner != b.Self() {
		t.Errorf("Save of the owner before: %v", err)
	}
}

// A database that crashes keeps what it has acknowledged.
func TestStoreCrashes(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.StartDurable(t)
	a, b := join(t, server, "vmcp", keys(t, "a")), join(t, server, "vmcp", keys(t, "a"))
	for round := range 3 {
		id := fmt.Sprint("s", round)
		must(t, a.Save(t.Context(), cluster.Row{ID: id, State: full}, time.Hour))
		testkit.Eventually(t, "the adoption", func() bool { // who was away looks first, and finds that the owner lives
			r, err := b.Adopt(t.Context(), id, a.Self(), time.Hour)
			must(t, err)
			return r.Owner == b.Self()
		})
		must(t, a.PutTask(t.Context(), cluster.Task{Principal: "alice", ID: id, Backend: "shop"}, time.Hour))
		server.Signal(t, syscall.SIGKILL)
		server.Up(t)
		r, ok, err := a.Session(t.Context(), id)
		must(t, err)
		if !ok || r.Owner != b.Self() || r.Epoch != 1 || r.State.Level != "debug" {
			t.Errorf("behind crash %d: %+v, %v", round, r, ok)
		}
		if _, ok, err := b.Task(t.Context(), "alice", id); !ok || err != nil {
			t.Errorf("behind crash %d: the task: %v, %v", round, ok, err)
		}
	}
}

// TestClusterClocks: a replica with a wrong clock uses that of the database.
func TestClusterClocks(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	for _, tt := range []struct {
		skew   time.Duration
		logged bool
	}{{0, false}, {5 * time.Minute, true}, {-26 * time.Hour, true}} {
		var log syncBuffer
		db, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL(), Schema: "clocks", MaxConnections: 6})
		must(t, err)
		m, err := cluster.Join(t.Context(), cluster.Options{
			DB: db, Ring: keys(t, "a"), Address: "10.0.0.1:1", Log: slog.New(slog.NewTextHandler(&log, nil)),
			Clock: func() time.Time { return time.Now().Add(tt.skew) },
		})
		must(t, err)
		if off := time.Until(m.Now()).Abs(); off > time.Minute {
			t.Errorf("a clock that is %s ahead: the time is %s off", tt.skew, off)
		}
		if said := strings.Contains(log.String(), "differs from that of the database"); said != tt.logged {
			t.Errorf("a clock that is %s ahead is logged: %v, want %v", tt.skew, said, tt.logged)
		}
		m.Close()
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder // guarded by mu
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestStoreStandsStillWhileOneLeaves: leaving waits for the database for less time than other statements do.
func TestStoreStandsStillWhileOneLeaves(t *testing.T) {
	testmode.NeedThorough(t)
	server := runstest.Start(t)
	a, b := join(t, server, "vmcp", keys(t, "a")), join(t, server, "vmcp", keys(t, "a"))
	server.Signal(t, syscall.SIGSTOP)
	defer server.Signal(t, syscall.SIGCONT)
	needed := make(chan error, 1)
	go func() { needed <- b.Ping(context.Background()) }()
	a.Leave()
	select {
	case err := <-needed:
		t.Fatalf("a statement failed before the other replica had left: %v", err)
	default:
	}
	if err := <-needed; !errors.Is(err, cluster.ErrUnavailable) {
		t.Errorf("a suspended database: %v", err)
	}
}
