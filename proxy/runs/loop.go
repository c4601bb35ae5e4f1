package runs

import (
	"context"
	"time"

	"github.com/vmcp-dev/vmcp/script/durable"
)

// loop resumes due runs until the keeper closes.
func (k *Keeper) loop() {
	tidied := time.Now()
	var looked, counted time.Time
	for k.life.Err() == nil {
		kept, unkept := k.of(false).Changed(), k.of(true).Changed() // before looking: a change meanwhile is looked at at once
		next, now := lookLate, time.Now()
		ends := now.Sub(looked) < lookLate*9/10 || now.Sub(counted) >= countLate // something has changed, or perhaps
		if looked = now; ends {
			counted = now
		}
		for _, never := range []bool{false, true} {
			next = min(next, k.resumeDue(k.of(never), never))
			if ends {
				k.countEnds(k.of(never))
			}
		}
		k.endAbsent()
		k.mu.Lock()
		k.looked = true
		k.mu.Unlock()
		if time.Since(tidied) >= tidy {
			tidied = time.Now()
			k.forget()
		}
		late := time.NewTimer(next)
		select {
		case <-kept:
		case <-unkept:
		case <-late.C:
		case <-k.life.Done():
		}
		late.Stop()
		if wait(k.life, nil, pause) != nil {
			return
		}
	}
}

// resumeDue resumes the due runs of a store, as far as there is room, and returns how long it may take until the next one is
// due, if nothing changes.
func (k *Keeper) resumeDue(of durable.Store, never bool) (next time.Duration) {
	room := k.room()
	if room <= 0 {
		return look
	}
	ctx, cancel := context.WithTimeout(k.life, endWithin)
	defer cancel()
	ids, next, err := of.Due(ctx, room)
	if err != nil {
		if k.life.Err() == nil {
			k.wrote(time.Time{}, err)
			if !k.silent {
				k.options.Log.Warn("the store of runs does not answer: no run is resumed until it does", "err", err)
			}
			k.silent = true
		}
		return look
	}
	if k.silent && !never {
		k.silent = false
		k.options.Log.Info("the store of runs answers again")
	}
	for _, id := range ids {
		k.resume(ctx, of, id)
	}
	switch {
	case len(ids) > 0: // they are due again if they could not be resumed
		return look
	case next < 0:
		return lookLate
	}
	return next
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
