package catalog

import (
	"sync"
	"time"
)

// A Report records which violations were reported. Its zero value is ready to use.
type Report struct {
	mu      sync.Mutex
	all     map[Violation]bool // in the common catalog; guarded by mu
	private map[Violation]bool // in catalogs of sessions; guarded by mu
	minute  time.Time          // start of the period of reports; guarded by mu
	reports int                // number since minute; guarded by mu
}

const (
	// maxPrivateReports bounds the recorded violations in catalogs of sessions.
	maxPrivateReports = 4096
	// maxReports bounds the violations that are reported per minute: a backend that changes constantly must not
	// displace everything else in the audit log.
	maxReports = 1000
)

// News returns the violations of a catalog that were not reported yet, up to the bound; leftOut is the number of the
// others. One that was absent from the common catalog in between is reported again. private marks the catalog of a
// session.
func (r *Report) News(found []Violation, private bool) (news []Violation, leftOut int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := map[Violation]bool{}
	for _, v := range found {
		if !r.all[v] && !r.private[v] && !now[v] {
			news = append(news, v)
		}
		now[v] = true
	}
	if private {
		r.rememberPrivate(news)
	} else {
		r.all = now
	}
	if time.Since(r.minute) > time.Minute {
		r.minute, r.reports = time.Now(), 0
	}
	room := min(len(news), maxReports-r.reports)
	r.reports += room
	return news[:room], len(news) - room
}

// rememberPrivate is called with mu held.
func (r *Report) rememberPrivate(news []Violation) {
	if r.private == nil || len(r.private)+len(news) > maxPrivateReports {
		r.private = map[Violation]bool{}
	}
	for _, v := range news {
		r.private[v] = true
	}
}
