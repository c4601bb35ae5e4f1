package runs

import (
	"context"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// loop resumes due runs until the keeper closes.
func (k *Keeper) loop() {
	tidied := time.Now()
	for k.life.Err() == nil {
		changed := k.of(false).Changed() // before looking: a change meanwhile is looked at at once
		for _, never := range []bool{false, true} {
			k.resumeDue(k.of(never), never)
			k.countEnds(k.of(never))
		}
		k.endAbsent()
		k.mu.Lock()
		k.looked = true
		k.mu.Unlock()
		if time.Since(tidied) >= tidy {
			tidied = time.Now()
			k.forget()
		}
		if wait(k.life, changed, look) != nil || wait(k.life, nil, pause) != nil {
			return
		}
	}
}

// resumeDue resumes the due runs of a store, as far as there is room.
func (k *Keeper) resumeDue(of durable.Store, never bool) {
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
			if !k.silent {
				k.options.Log.Warn("the store of runs does not answer: no run is resumed until it does", "err", err)
			}
			k.silent = true
		}
		return
	}
	if k.silent && !never {
		k.silent = false
		k.options.Log.Info("the store of runs answers again")
	}
	for _, id := range ids {
		k.resume(ctx, of, id)
	}
}

// room is the number of runs that may be resumed now.
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

// resume acquires a run and executes a part of it.
func (k *Keeper) resume(ctx context.Context, of durable.Store, id string) {
	k.mu.Lock()
	var done func()
	if k.active[id] == nil && !k.stopping {
		_, done = k.reserve(id)
	}
	k.mu.Unlock()
	if done == nil { // it is in progress or about to be acquired, or the keeper is stopping
		return
	}
	defer done()
	before, _, err := of.Get(ctx, id)
	if err != nil {
		before = durable.Run{}
	}
	l, err := k.acquire(ctx, of, id)
	if err != nil {
		k.options.Log.Debug("a run was not acquired", "run", id, "err", err)
		return
	}
	if s, err := settingsOf(before); err == nil && forsaken(before, s) {
		k.pauseForsaken(ctx, l, s)
		return
	}
	p := k.began(l, of, k.cause(before))
	k.options.Resumed(p.Cause)
	k.options.Log.Info("run resumed", "run", id, "tool", p.run.Tool, "cause", string(p.Cause))
	k.spawn(func() { k.options.Execute(p) })
}

// handedOver is the time since the last write of a run from which it counts as released by its owner at shutdown,
// rather than just changed by an operator.
const handedOver = 100 * time.Millisecond

// cause is the reason why a run is due.
func (k *Keeper) cause(r durable.Run) Cause {
	k.mu.Lock()
	first := !k.looked
	k.mu.Unlock()
	for _, q := range r.Questions {
		if r.State == durable.Waiting && q.Answer != nil {
			return answer
		}
	}
	switch {
	case r.State == durable.Running && first:
		return start
	case r.State == durable.Running && r.Owner == "" && r.Wake.Sub(r.Updated) < handedOver:
		return operator
	case r.State == durable.Running:
		return lease
	case r.State == durable.Doubt, r.State == durable.Paused:
		return operator
	}
	return wake
}

// forget deletes runs that ended long enough ago.
func (k *Keeper) forget() {
	k.mu.Lock()
	keep := k.keep
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.life, endWithin)
	defer cancel()
	for _, old := range []durable.Old{
		{Before: time.Now().Add(-keep.Done), States: []durable.State{durable.Done}},
		{Before: time.Now().Add(-keep.Failed), States: []durable.State{durable.Failed, durable.Cancelled}},
	} {
		if _, err := k.of(false).Prune(ctx, old); err != nil && k.life.Err() == nil {
			k.options.Log.Warn("ended runs could not be deleted", "err", err)
		}
	}
	_, _ = k.of(true).Prune(ctx, durable.Old{Before: time.Now().Add(-ephemeralFor)})
}

// ephemeralFor is how long the result of a run that is never kept is available.
const ephemeralFor = 10 * time.Minute
