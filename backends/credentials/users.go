package credentials

import (
	"container/list"
	"sync"
)

// maxUsers bounds the principals whose tokens for one backend are in memory.
const maxUsers = 4096

// users has the sources of the maxUsers most recently used principals.
type users[S any] struct {
	mu     sync.Mutex
	all    map[string]*list.Element // guarded by mu, by the principal's key
	recent list.List                // guarded by mu; of kept[S], the latest first
}

type kept[S any] struct {
	key    string
	source S
}

// of returns the source of a principal; create makes one for a principal that has none.
func (u *users[S]) of(key string, create func() (S, error)) (S, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := u.all[key]; at != nil {
		u.recent.MoveToFront(at)
		return at.Value.(kept[S]).source, nil
	}
	s, err := create()
	if err != nil {
		return s, err
	}
	if u.all == nil {
		u.all = map[string]*list.Element{}
	}
	u.all[key] = u.recent.PushFront(kept[S]{key, s})
	if u.recent.Len() > maxUsers {
		last := u.recent.Back()
		delete(u.all, last.Value.(kept[S]).key)
		u.recent.Remove(last)
	}
	return s, nil
}
