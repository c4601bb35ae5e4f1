package cluster

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"golang.org/x/sync/errgroup"

	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
)

const (
	// retryTime is the delay before statuses that could not be written are retried.
	retryTime = 5 * time.Second
	// writing bounds how many statuses are written at once.
	writing = 8
)

// writer writes the status of objects while this process holds the lease. Only one process writes: statuses of replicas
// may differ, for example when only one of them has a last good version in memory, and they would overwrite each other
// without end.
//
// The status that the API server has is known from the watches and from the responses to writes, whichever is newer.
// A status that differs only in times is not written.
type writer struct {
	source *Source
	wake   chan struct{} // cap 1

	mu      sync.Mutex // guards all below
	wanted  map[string]resolve.Report
	written map[string]written // by uid
	count   map[string]int     // of writes, by outcome
}

// written is a status as the API server has it, with the resourceVersion of the object.
type written struct {
	version string
	status  object.Status
}

func newWriter(s *Source) *writer {
	return &writer{source: s, wake: make(chan struct{}, 1), wanted: map[string]resolve.Report{}, written: map[string]written{}, count: map[string]int{"ok": 0, "gone": 0, "error": 0}}
}

// changed wakes the writer, which compares all statuses.
func (w *writer) changed() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// want replaces the statuses to be written.
func (w *writer) want(reports []resolve.Report) {
	all, uids := make(map[string]resolve.Report, len(reports)), map[string]bool{}
	for _, r := range reports {
		all[r.Object.String()] = r
		uids[r.Object.UID] = true
	}
	w.mu.Lock()
	w.wanted = all
	maps.DeleteFunc(w.written, func(uid string, _ written) bool { return !uids[uid] })
	w.mu.Unlock()
	w.changed()
}

// run writes statuses until ctx ends.
func (w *writer) run(ctx context.Context) {
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-again.C:
		}
		if w.source.lease.held() && !w.write(ctx) {
			again.Reset(retryTime)
		}
	}
}

// write writes the statuses that differ from the API server's. It returns false if one could not be written.
func (w *writer) write(ctx context.Context) bool {
	var all errgroup.Group
	all.SetLimit(writing)
	for _, key := range w.keys() {
		all.Go(func() error { return w.writeOne(ctx, key) })
	}
	return all.Wait() == nil
}

func (w *writer) keys() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.wanted))
}

// writeOne writes the status of an object if it differs from the API server's, and events about its transitions.
func (w *writer) writeOne(ctx context.Context, key string) error {
	report, now, ok := w.newest(key)
	if !ok || !w.source.lease.held() || ctx.Err() != nil {
		return nil
	}
	if same(now.status, report.Status) {
		return nil
	}
	status := timed(report.Status, now.status, time.Now())
	to := target{ofKind(report.Object.Kind).GroupVersionResource, report.Object.Kind.Name, report.Object.Name, report.Object.UID}
	version, err := w.source.client.applyStatus(ctx, to, status)
	w.mu.Lock()
	switch {
	case err == nil:
		w.count["ok"]++
		w.written[to.uid] = written{version, status}
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // deleted or replaced: the watch reports it, and a new object gets its own status
		w.count["gone"]++
		err = nil
		w.mu.Unlock()
		return nil
	default:
		w.count["error"]++
	}
	w.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			w.source.log.Warn("status not written, it is tried again", "object", report.Object.String(), "err", err)
		}
		return err
	}
	w.source.client.writeEvents(ctx, to, transitions(now.status, status), w.source.options.Identity)
	return nil
}

// newest returns the wanted status of an object and the one that the API server has; false if the object does not exist
// or was replaced.
func (w *writer) newest(key string) (resolve.Report, written, bool) {
	w.mu.Lock()
	report, ok := w.wanted[key]
	last := w.written[report.Object.UID]
	w.mu.Unlock()
	if !ok {
		return report, last, false
	}
	seen, uid := w.source.seen(report.Object)
	if uid != report.Object.UID {
		return report, last, false
	}
	if isNewer(seen.version, last.version) {
		return report, seen, true
	}
	return report, last, true
}

// seen returns the status of an object as the watches received it, and the object's uid.
func (s *Source) seen(r object.Ref) (written, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Kind {
	case object.Server:
		return seenIn(&s.servers, r.Name)
	case object.Entry:
		return seenIn(&s.entries, r.Name)
	case object.Scripted:
		return seenIn(&s.scripted, r.Name)
	}
	return seenIn(&s.composites, r.Name)
}

func seenIn[T any](s *set[T], name string) (written, string) {
	h := s.objects[name]
	if h == nil {
		return written{}, ""
	}
	return written{h.version, h.status}, h.uid
}

// isNewer reports whether resourceVersion a is newer than b; "" is the oldest.
func isNewer(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	if errA != nil || errB != nil {
		return b == ""
	}
	return x > y
}

// same reports whether two statuses are equal but for times.
func same(a, b object.Status) bool {
	if a.ObservedGeneration != b.ObservedGeneration || a.AppliedGeneration != b.AppliedGeneration || a.Path != b.Path || len(a.Conditions) != len(b.Conditions) {
		return false
	}
	for _, c := range a.Conditions {
		other := b.Condition(c.Type)
		if c.LastTransitionTime = other.LastTransitionTime; c != other {
			return false
		}
	}
	return true
}

// timed returns a status with lastTransitionTime set: that of before where the condition's status is unchanged, else now.
func timed(s, before object.Status, now time.Time) object.Status {
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if c.LastTransitionTime = now.UTC().Format(time.RFC3339); before.Condition(c.Type).Status == c.Status {
			c.LastTransitionTime = before.Condition(c.Type).LastTransitionTime
		}
	}
	return s
}

// counts returns the number of writes by outcome.
func (w *writer) counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.count)
}

// objects counts the accepted and rejected objects of each kind.
func (w *writer) objects() (all []Count) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range object.Kinds {
		n := Count{Kind: kind.Name}
		for _, r := range w.wanted {
			switch {
			case r.Object.Kind != kind:
			case isAccepted(r.Status):
				n.Accepted++
			default:
				n.Rejected++
			}
		}
		all = append(all, n)
	}
	return all
}

// isAccepted reports whether an object's spec, references and scripts have no problem.
func isAccepted(s object.Status) bool {
	return s.Condition(object.Accepted).Status != object.False && s.Condition(object.ScriptsValid).Status != object.False
}
