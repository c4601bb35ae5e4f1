package runs

import (
	"context"
	"time"

	store "github.com/vmcp-dev/vmcp/runs"
)

// loop takes up what can go on by itself, for as long as the keeper lives.
func (k *Keeper) loop() {
	tidied := time.Now()
	for k.life.Err() == nil {
		for _, never := range []bool{false, true} {
			k.takeUp(k.of(never), never)
			k.countEnds(k.of(never))
		}
		k.mu.Lock()
		k.looked = true
		k.mu.Unlock()
		if time.Since(tidied) >= tidy {
			tidied = time.Now()
			k.forget()
		}
		if wait(k.life, k.of(false).Changed(), look) != nil || wait(k.life, nil, pause) != nil {
			return
		}
	}
}

// takeUp takes up what is due, as far as there is room.
func (k *Keeper) takeUp(of store.Store, never bool) {
	room := k.room()
	if room <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(k.life, endWithin)
	defer cancel()
	ids, err := of.Due(ctx, room)
	if err != nil {
		if k.life.Err() == nil {
			k.wrote(time.Time{}, err)
			if !k.away {
				k.options.Log.Warn("the store of runs does not answer: no run goes on by itself until it does", "err", err)
			}
			k.away = true
		}
		return
	}
	if k.away && !never {
		k.away = false
		k.options.Log.Info("the store of runs answers again")
	}
	for _, id := range ids {
		k.resume(ctx, of, id)
	}
}

// room is how many runs may be taken up.
func (k *Keeper) room() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopping {
		return 0
	}
	n := atOnce
	for _, p := range k.active {
		if p.alone {
			n--
		}
	}
	return n
}

// resume takes one run and executes it.
func (k *Keeper) resume(ctx context.Context, of store.Store, id string) {
	k.mu.Lock()
	busy := k.active[id] != nil
	k.mu.Unlock()
	if busy {
		return
	}
	before, _, err := of.Get(ctx, id)
	if err != nil {
		before = store.Run{}
	}
	l, err := k.take(ctx, of, id)
	if err != nil {
		k.options.Log.Debug("a run was not taken", "run", id, "err", err)
		return
	}
	p := k.began(l, of, k.cause(before))
	k.options.Resumed(p.Cause)
	k.options.Log.Info("run goes on", "run", id, "tool", p.run.Tool, "cause", string(p.Cause))
	k.spawn(func() { k.options.Execute(p) })
}

// handedOver is how long a run was not written to at least, for it to be one that its owner gave back at its end and
// not one that an operator has just changed: that is an update of its own.
const handedOver = 100 * time.Millisecond

// cause is why a run is due.
func (k *Keeper) cause(r store.Run) Cause {
	k.mu.Lock()
	first := !k.looked
	k.mu.Unlock()
	for _, q := range r.Questions {
		if r.State == store.Waiting && q.Answer != nil {
			return Answer
		}
	}
	switch {
	case r.State == store.Running && first:
		return Start
	case r.State == store.Running && r.Owner == "" && r.Wake.Sub(r.Updated) < handedOver:
		return Operator
	case r.State == store.Running:
		return Lease
	case r.State == store.Doubt, r.State == store.Paused:
		return Operator
	}
	return Wake
}

// forget forgets runs that have been over for as long as they are kept.
func (k *Keeper) forget() {
	k.mu.Lock()
	keep := k.keep
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.life, endWithin)
	defer cancel()
	for _, old := range []store.Old{
		{Before: time.Now().Add(-keep.Done), States: []store.State{store.Done}},
		{Before: time.Now().Add(-keep.Failed), States: []store.State{store.Failed, store.Cancelled}},
	} {
		if _, err := k.of(false).Prune(ctx, old); err != nil && k.life.Err() == nil {
			k.options.Log.Warn("runs that are over were not forgotten", "err", err)
		}
	}
	_, _ = k.of(true).Prune(ctx, store.Old{Before: time.Now().Add(-apartFor)})
}

// apartFor is how long the result of a run is kept that is never kept.
const apartFor = 10 * time.Minute
