package credentials

import "sync"

// unsaved are renewed grants that could not be written yet: after rotation their refresh tokens are the only valid
// ones. A grant waits only for the stored one that it replaces: a new login or a logout meanwhile ends that.
type unsaved struct {
	mu     sync.Mutex
	grants map[grantKey]renewed // guarded by mu; maxUnsaved at most
}

type grantKey struct{ backend, principal string }

// renewed is a grant and the refresh token of the stored one that it replaces.
type renewed struct {
	grant *Grant
	used  string
}

// maxUnsaved bounds the grants that are not written yet.
const maxUnsaved = maxGrants

// keep keeps a grant in place of stored, until forget.
func (u *unsaved) keep(k grantKey, next, stored *Grant) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.grants == nil {
		u.grants = map[grantKey]renewed{}
	}
	if len(u.grants) < maxUnsaved {
		u.grants[k] = renewed{next, stored.Refresh}
	}
}

// inPlaceOf returns the unsaved grant that replaces stored; nil when there is none.
func (u *unsaved) inPlaceOf(k grantKey, stored *Grant) *Grant {
	u.mu.Lock()
	defer u.mu.Unlock()
	r, ok := u.grants[k]
	if !ok {
		return nil
	}
	if stored == nil || stored.Refresh != r.used {
		delete(u.grants, k)
		return nil
	}
	return r.grant
}

// waiting returns the unsaved grant of a key, for a store that cannot be read; nil when there is none.
func (u *unsaved) waiting(k grantKey) *Grant {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.grants[k].grant
}

func (u *unsaved) forget(k grantKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.grants, k)
}
