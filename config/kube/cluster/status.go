package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
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
	// overwrites is how often a status that another process has overwritten is written again at once, overwriteTime the
	// interval after that.
	overwrites    = 3
	overwriteTime = 30 * time.Second
)

// writer writes the status of objects while this process holds its lease. Of the replicas that serve the same servers only
// one writes: their statuses may differ, for example when only one of them has a last good version in memory, and they
// would overwrite each other without end.
//
// Processes with --server have leases of their own, so several writers may write side by side:
//
//   - The status of a server is written by the holder of the lease that it names. A process without --server serves all
//     servers, but leaves the status of one that names another lease to the holder of that.
//   - The status of a tool or an entry has an element for each server that uses it. Each is written under a field manager of
//     its own by the process that writes the status of the server, and removed when the server no longer uses the
//     object or does not exist. The conditions of the object are computed from all elements, see resolve.Report.Merge.
//     If no server uses it, any process writes them, and if only servers of others refer to it, none of this one's.
//
// Each write is based on a resourceVersion: if another process wrote meanwhile, it is a conflict, and the watch wakes this
// writer with the status as it is now. A writer that is overwritten again and again, such as by a process of another release
// with other messages, writes only each overwriteTime.
//
// The status that the API server has is known from the watches and from the responses to writes, whichever is newer.
// A status that differs only in times is not written.
type writer struct {
	source *Source
	wake   chan struct{} // cap 1
	others others

	mu      sync.Mutex // guards all below
	wanted  map[string]resolve.Report
	free    map[string]bool    // Leases that are named in statuses, and not held
	written map[string]written // by uid
	told    map[change]told    // the last write of a field manager
	count   map[string]int     // of writes, by outcome
}

// written is a status as the API server has it, with the resourceVersion and generation of the object.
type written struct {
	version    string
	generation int64
	status     object.Status
}

// A change names the fields of a field manager in the status of an object.
type change struct{ uid, manager string }

// told is the last write of a change, and how often it was repeated.
type told struct {
	status object.Status
	at     time.Time
	times  int
}

func newWriter(s *Source) *writer {
	return &writer{source: s, wake: make(chan struct{}, 1), others: others{s.client, map[string]*holding{}},
		wanted: map[string]resolve.Report{}, written: map[string]written{}, told: map[change]told{}, count: map[string]int{"ok": 0, "gone": 0, "error": 0}}
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
	maps.DeleteFunc(w.told, func(c change, _ told) bool { return !uids[c.uid] })
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
		wait := time.Hour
		if w.source.lease.held() {
			if w.leave(ctx) {
				wait = renewTime
			}
			if !w.write(ctx) {
				wait = min(wait, retryTime)
			}
		}
		again.Reset(wait)
	}
}

// leave finds out which of the Leases that servers name are not held by another process. It returns false if all are free.
func (w *writer) leave(ctx context.Context) bool {
	free, leaves := map[string]bool{}, false
	if w.source.options.Only == "" {
		for _, lease := range w.source.leases() {
			free[lease] = !w.others.held(ctx, lease)
			leaves = leaves || !free[lease]
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = free
	return leaves
}

// leases returns the Leases of other processes that the statuses of servers name.
func (s *Source) leases() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.servers.objects {
		if isOther(h.status.Lease) && !slices.Contains(all, h.status.Lease) {
			all = append(all, h.status.Lease)
		}
	}
	return all
}

// isOther reports whether a name is that of the Lease of processes with --server.
func isOther(lease string) bool { return strings.HasPrefix(lease, leaseName+"-") }

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
	if !ok {
		return nil
	}
	for _, a := range w.plan(report, now.status) {
		if !w.source.lease.held() || ctx.Err() != nil {
			return nil
		}
		to := target{ofKind(report.Object.Kind).GroupVersionResource, report.Object.Kind.Name, report.Object.Name, report.Object.UID, now.version}
		done, err := w.apply(ctx, to, a, now)
		if err != nil || done.version == "" {
			return err
		}
		w.source.client.writeEvents(ctx, to, transitions(now.status, done.status), w.source.options.Identity)
		now = done
	}
	return nil
}

// errOverwritten: another process overwrites what this one writes.
var errOverwritten = errors.New("another process writes another status")

// apply writes the fields of a field manager and returns the status that the object has then; without a version if the
// object was changed or deleted meanwhile.
func (w *writer) apply(ctx context.Context, to target, a fieldsOf, now written) (written, error) {
	c := change{to.uid, a.manager}
	if w.isOverwritten(c, a.status) {
		return written{}, errOverwritten
	}
	status := timed(a.status, now.status, time.Now())
	var body any = status
	if to.kind != object.Server.Name && status.AppliedGeneration == 0 && now.status.AppliedGeneration != 0 {
		body = cleared{Status: status}
	}
	done, err := w.source.client.applyStatus(ctx, to, a.manager, body)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.count["ok"]++
		w.written[to.uid] = done
		w.note(c, a.status)
		return done, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // the watch reports it, and a new object gets its own status
		w.count["gone"]++
		return written{}, nil
	}
	w.count["error"]++
	if ctx.Err() == nil {
		w.source.log.Warn("status not written, it is tried again", "object", to.kind+" "+to.name, "err", err)
	}
	return written{}, err
}

// cleared is a status without an applied generation that says so: a field that is missing would be kept by the other field
// managers that have written it.
type cleared struct {
	object.Status
	AppliedGeneration int64 `json:"appliedGeneration"`
}

// isOverwritten reports whether a write would only repeat an earlier one of the last overwriteTime, once more.
func (w *writer) isOverwritten(c change, status object.Status) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.told[c]
	return ok && same(last.status, status) && last.times >= overwrites && time.Since(last.at) < overwriteTime
}

// note records a write. mu is held.
func (w *writer) note(c change, status object.Status) {
	last, ok := w.told[c]
	if !ok || !same(last.status, status) {
		last = told{}
	} else {
		last.times++
	}
	last.status, last.at = status, time.Now()
	w.told[c] = last
}

// newest returns the wanted status of an object and the one that the API server has; false if the object does not exist,
// was replaced, or is shared and has a newer generation, which other processes may have reported already.
func (w *writer) newest(key string) (resolve.Report, written, bool) {
	w.mu.Lock()
	report, ok := w.wanted[key]
	last := w.written[report.Object.UID]
	w.mu.Unlock()
	if !ok {
		return report, last, false
	}
	now, uid := w.source.seen(report.Object)
	if uid != report.Object.UID {
		return report, last, false
	}
	if !isNewer(now.version, last.version) {
		now = last
	}
	return report, now, report.Object.Kind == object.Server || now.generation <= report.Object.Generation
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
	return written{h.version, h.generation, h.status}, h.uid
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
