package secret

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"
)

const (
	// maxAdded bounds the secrets that are added at run time, such as fetched tokens, and
	// maxAddedBytes the bytes of their forms. The oldest are dropped.
	maxAdded      = 8192
	maxAddedBytes = 64 << 20
)

// added are the secrets that are added at run time. They change often, one at a time, so the
// patterns are changed in place.
type added struct {
	some atomic.Bool // there are any

	mu       sync.RWMutex
	patterns patterns        // guarded by mu
	known    map[string]bool // guarded by mu
	forms    map[string]int  // guarded by mu: number of values with a form
	order    []string        // guarded by mu, the oldest first
	bytes    int             // guarded by mu: of all forms
}

// Add adds values to the secrets of Use. The newest maxAdded of them stay hidden.
func (r *Redactor) Add(values ...string) {
	a := &r.added
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil {
		a.known, a.forms, a.patterns.by = map[string]bool{}, map[string]int{}, map[[Shortest]byte][]string{}
	}
	for _, v := range values {
		if a.known[v] {
			continue
		}
		all := forms(v)
		if len(all) == 0 {
			continue
		}
		a.known[v] = true
		a.order = append(a.order, v)
		for _, form := range all {
			if a.forms[form]++; a.forms[form] == 1 {
				a.patterns.add(form)
				a.bytes += len(form)
			}
		}
		a.patterns.longest = max(a.patterns.longest, len(v)*longestEscape)
	}
	for len(a.order) > maxAdded || a.bytes > maxAddedBytes && len(a.order) > 1 {
		a.forget(a.order[0])
		a.order = a.order[1:]
	}
	a.some.Store(len(a.order) > 0)
}

// forget removes a value. mu is held.
func (a *added) forget(value string) {
	delete(a.known, value)
	for _, form := range forms(value) {
		if a.forms[form]--; a.forms[form] == 0 {
			delete(a.forms, form)
			a.patterns.remove(form)
			a.bytes -= len(form)
		}
	}
}

// add adds a new form. Longer forms are before shorter ones.
func (p *patterns) add(form string) {
	key := [Shortest]byte([]byte(form))
	at := sort.Search(len(p.by[key]), func(i int) bool { return len(p.by[key][i]) < len(form) }) // after those of equal length: the oldest are found first
	p.by[key] = slices.Insert(p.by[key], at, form)
	p.first[form[0]] = true
	p.longest = max(p.longest, len(form))
}

// remove removes a form. first and longest are not updated, which costs time only.
func (p *patterns) remove(form string) {
	key := [Shortest]byte([]byte(form))
	all := p.by[key]
	if at := slices.Index(all, form); len(all) > 1 {
		p.by[key] = slices.Delete(all, at, at+1)
		return
	}
	delete(p.by, key)
}

// replace hides the added secrets in s.
func (a *added) replace(s string) string {
	if !a.some.Load() {
		return s
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.patterns.replace(s)
}

// longest is the length of the longest form.
func (a *added) longest() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.patterns.longest
}
