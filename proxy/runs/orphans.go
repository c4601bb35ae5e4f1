package runs

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// Orphans are runs whose process has ended while it executed them, and whose clients cannot ask for them again. They are paused
// rather than resumed: a client that calls again begins another run, and the effects of both would happen. An equal call of the
// same principal is told of the orphan for a while, by the process that has paused it.
type orphans struct {
	mu   sync.Mutex
	runs map[[sha256.Size]byte]orphan // guarded by mu
}

type orphan struct {
	id    string
	until time.Time
}

// maxOrphans bounds the orphans that calls are compared with.
const maxOrphans = 10_000

// callOf identifies equal calls of a principal; false for those of anonymous ones, and for those that have a key.
func callOf(r durable.Run, s Settings) (call [sha256.Size]byte, ok bool) {
	copy(call[:], Binding(r.Principal, r.Tool, []byte(s.Profile), r.Args))
	return call, r.Principal != "" && r.Dedupe == ""
}

func (o *orphans) add(r durable.Run, s Settings, until time.Time) {
	call, ok := callOf(r, s)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs == nil {
		o.runs = map[[sha256.Size]byte]orphan{}
	}
	if now := time.Now(); len(o.runs) >= maxOrphans {
		for call, other := range o.runs {
			if other.until.Before(now) {
				delete(o.runs, call)
			}
		}
	}
	if ok && len(o.runs) < maxOrphans {
		o.runs[call] = orphan{r.ID, until}
	}
}

// equal is the orphan of an equal call; "" for none.
func (o *orphans) equal(r durable.Run, s Settings) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.runs) == 0 {
		return ""
	}
	call, ok := callOf(r, s)
	found, has := o.runs[call]
	if !ok || !has || found.until.Before(time.Now()) {
		return ""
	}
	return found.id
}

// forsaken reports whether a due run was executed by a process that has ended, and nobody can ask for it again: its request has
// no idempotency key, and its client, if it is stateless, has had no request state yet. A run that was released, as by a
// shutdown, has no owner.
func forsaken(r durable.Run, s Settings) bool {
	return r.State == durable.Running && r.Owner != "" && r.Dedupe == "" && s.OnDisconnect != "continue" && !(s.Stateless && r.Epoch > 1)
}

// pauseForsaken pauses a run, and remembers it for equal calls.
func (k *Keeper) pauseForsaken(ctx context.Context, l durable.Lease, s Settings) {
	r := l.Run()
	if err := l.End(ctx, durable.Outcome{State: durable.Paused}); err != nil {
		k.options.Log.Warn("a run could not be paused", "run", r.ID, "err", err)
		return
	}
	k.mu.Lock()
	keep := k.keep.Equal
	k.mu.Unlock()
	k.orphans.add(r, s, time.Now().Add(keep))
	k.options.Log.Warn("run paused: its process has ended, and its client cannot ask for it again; vmcp runs resume continues it, vmcp runs cancel ends it", "run", r.ID, "tool", r.Tool)
}

// unknownRun is the error for a call that is equal to one whose run is an orphan.
func unknownRun(id string) error {
	return refusal("unknown", id, "an equal call was interrupted when its process ended, and which of its effects have happened is in its run: %s. It is paused: vmcp runs show says what it did, vmcp runs resume continues it, vmcp runs cancel ends it; afterwards, or with an idempotency key, the call can be made again", id)
}

// orphanOf is the orphan to tell a new run of; "" for none. One that has gone on, or has ended, is none any more.
func (k *Keeper) orphanOf(ctx context.Context, of durable.Store, r durable.Run, s *Settings) string {
	if s == nil {
		return ""
	}
	id := k.orphans.equal(r, *s)
	if id == "" {
		return ""
	}
	if row, _, err := of.Get(ctx, id); err != nil || row.State != durable.Paused {
		return ""
	}
	return id
}
