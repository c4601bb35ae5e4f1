package durable

import (
	"cmp"
	"slices"
)

// weightOfOne is roughly what a run uses besides its contents, in bytes.
const weightOfOne = 4000

// maxEnded is how many runs that have ended are kept, beside those that were given up.
const maxEnded = 1000

// givenUp is the error of a run that fit has ended.
const givenUp = "the run was given up: the server keeps runs in memory, and limits.totalMemory has no room left for those that nobody continues; a database (sessionStorage) keeps them"

// fit removes runs until those without an owner fit into the memory that is left to them, half of it for one principal: what
// has ended is forgotten, the first to end first; then runs are given up, of the principal that holds most. A run that was given
// up is known for longer, without its journal, so that its request is not executed again. keep is not removed, however large it
// is. What is being executed is not counted, and no run is refused for want of room. mu is held.
func (s *MemoryStore) fit(keep *run) {
	most := s.pool.MostKept()
	for int64(s.ended.Len())-s.givenUp > maxEnded && s.forgetEnded(keep, func(r *run) bool { return !r.givenUp }) {
	}
	for keep.Principal != "" && s.of[keep.Principal] > most/2 && s.remove(keep, keep.Principal, func(r *run) bool { return r.Principal == keep.Principal }) {
	}
	for s.kept > most && s.remove(keep, s.largest(keep), func(*run) bool { return true }) {
	}
}

// remove forgets the first ended run that matches, or gives up runs of a principal; false if there are none but keep.
func (s *MemoryStore) remove(keep *run, principal string, match func(*run) bool) bool {
	most := s.pool.MostKept() / 4 / weightOfOne // runs that were given up
	return s.forgetEnded(keep, func(r *run) bool { return match(r) && (!r.givenUp || s.givenUp > most) }) || s.giveUp(keep, principal)
}

// forgetEnded forgets the first ended run that matches and is not keep; false if there is none.
func (s *MemoryStore) forgetEnded(keep *run, match func(*run) bool) bool {
	for e := s.ended.Front(); e != nil; e = e.Next() {
		if r := e.Value.(*run); r != keep && match(r) {
			if !r.givenUp { // it is counted then
				s.forgotten[r.State]++
			}
			s.forget(r)
			return true
		}
	}
	return false
}

// largest is the principal whose runs, without keep, weigh most.
func (s *MemoryStore) largest(keep *run) (principal string) {
	most := int64(-1)
	for p, n := range s.of {
		if p == keep.Principal {
			n -= keep.weight
		}
		if n > most {
			principal, most = p, n
		}
	}
	return principal
}

// giveUp ends an eighth of the runs of a principal that have no owner and have not ended: paused and doubtful ones first, then
// those that wait for an answer, then those that sleep, the oldest of each first; false if there are none but keep.
func (s *MemoryStore) giveUp(keep *run, principal string) bool {
	var idle []*run
	for _, r := range s.live {
		if r != keep && r.lease == nil && r.Principal == principal {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b *run) int {
		return cmp.Or(cmp.Compare(rank[a.State], rank[b.State]), a.Updated.Compare(b.Updated))
	})
	for _, r := range idle[:(len(idle)+7)/8] {
		r.givenUp = true
		s.givenUp++
		s.forgotten[r.State]++
		s.end(r, Outcome{State: Failed, Error: givenUp})
		s.uncount(r)
	}
	return len(idle) > 0
}

// rank is the order in which runs are given up. A running one without an owner is about to get one.
var rank = map[State]int{Waiting: 1, Sleeping: 2, Running: 3}
