package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// leaseName is the Lease whose holder writes the status of the servers that have no process of their own.
const leaseName = "vmcp-status"

// LeaseOf is the name of the Lease whose holder writes the status of a server that has processes of its own; without a
// server, of the others. It is a DNS label: a server's name that has dots or is too long is shortened, with a digest.
func LeaseOf(server string) string {
	if server == "" {
		return leaseName
	}
	return leaseName + "-" + label(server, longestLabel-len(leaseName)-1)
}

// longestLabel is the length of the longest DNS label.
const longestLabel = 63

// label returns a name if it is a DNS label of at most the given length, else one made of its beginning and its digest.
func label(name string, most int) string {
	if len(name) <= most && !strings.Contains(name, ".") {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	begin := strings.ReplaceAll(name, ".", "-")
	return strings.TrimRight(begin[:min(len(begin), most-9)], "-") + "-" + hex.EncodeToString(sum[:4])
}

const (
	// leaseTime is how long a lease that is not renewed is valid, renewTime the interval of renewals.
	leaseTime = 15 * time.Second
	renewTime = 5 * time.Second
	// tryTime is the interval at which other processes try to acquire the lease.
	tryTime = time.Second
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// lease is this process's side of leader election for writing status. Times in the Lease object are not compared with
// the local clock, since clocks differ: another process's lease has expired when its resourceVersion has not changed
// for leaseTime of the local clock. All fields but ours belong to the goroutine of renewUntil.
type lease struct {
	client   *Client
	name     string
	identity string
	ours     atomic.Bool

	version string    // resourceVersion at the last read
	since   time.Time // when that version was seen first
	until   time.Time // when the last successful renewal expires
}

func newLease(c *Client, name, identity string) *lease {
	return &lease{client: c, name: name, identity: identity}
}

// held reports whether this process holds the lease.
func (l *lease) held() bool { return l.ours.Load() }

// renewUntil acquires the lease when it is free, renews it until ctx ends, and then releases it. It calls taken each
// time the lease was acquired.
func (l *lease) renewUntil(ctx context.Context, taken func()) {
	defer l.release()
	for warned := false; ; {
		before := l.held()
		err := l.attempt(ctx, time.Now())
		switch {
		case err == nil || ctx.Err() != nil:
		case apierrors.IsForbidden(err) && !warned:
			warned = true
			l.client.log.Warn("no status is written: the Role of this ServiceAccount lacks get and update of the lease", "lease", l.name, "err", err)
		default:
			l.client.log.Debug("lease", "name", l.name, "err", err)
		}
		if err != nil && l.held() && time.Now().After(l.until) {
			l.ours.Store(false) // expired: another process may hold it
		}
		if l.held() && !before {
			l.client.log.Info("this process writes the status of objects", "lease", l.name)
			taken()
		}
		wait := time.NewTimer(tryTime)
		if l.held() && err == nil {
			wait.Reset(renewTime)
		}
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// attempt acquires the lease if it is free or expired, or renews it if this process holds it.
func (l *lease) attempt(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	at := l.client.in(leases)
	u, err := at.Get(ctx, l.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		u = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": l.name, "namespace": l.client.Namespace},
		}}
		l.fill(u, now)
		u, err = at.Create(ctx, u, metav1.CreateOptions{})
		return l.wrote(u, now, err)
	}
	if err != nil {
		return err
	}
	if v := u.GetResourceVersion(); v != l.version {
		l.version, l.since = v, now
	}
	holder, _, _ := unstructured.NestedString(u.Object, "spec", "holderIdentity")
	if holder != "" && holder != l.identity && now.Sub(l.since) < leaseTime {
		l.ours.Store(false)
		return nil
	}
	l.fill(u, now)
	u, err = at.Update(ctx, u, metav1.UpdateOptions{})
	return l.wrote(u, now, err)
}

// fill sets this process as the holder in the spec of the lease.
func (l *lease) fill(u *unstructured.Unstructured, now time.Time) {
	spec, _, _ := unstructured.NestedMap(u.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	stamp := now.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	if spec["holderIdentity"] != l.identity {
		changes, _ := spec["leaseTransitions"].(int64)
		spec["leaseTransitions"], spec["acquireTime"] = changes+1, stamp
	}
	spec["holderIdentity"], spec["renewTime"], spec["leaseDurationSeconds"] = l.identity, stamp, int64(leaseTime/time.Second)
	u.Object["spec"] = spec
}

// wrote handles the response to a create or update of the lease. A conflict means that another process acquired it.
func (l *lease) wrote(u *unstructured.Unstructured, now time.Time, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		l.ours.Store(false)
		return nil
	}
	if err != nil {
		return err
	}
	l.version, l.since, l.until = u.GetResourceVersion(), now, now.Add(leaseTime)
	l.ours.Store(true)
	return nil
}

// release clears the holder of the lease, so that another process can acquire it without waiting for leaseTime.
func (l *lease) release() {
	if !l.ours.Swap(false) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	at := l.client.in(leases)
	u, err := at.Get(ctx, l.name, metav1.GetOptions{})
	if err == nil && u.GetResourceVersion() == l.version {
		if err = unstructured.SetNestedField(u.Object, "", "spec", "holderIdentity"); err == nil {
			_, err = at.Update(ctx, u, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		l.client.log.Debug("lease not given back", "name", l.name, "err", err)
	}
}

// others finds out whether the servers that have processes of their own are still reported by them: whether their Leases
// are held. A process without --server leaves their status to those. It belongs to the goroutine of the writer.
type others struct {
	client *Client
	known  map[string]*holding // by the name of the Lease
}

// holding is the Lease of another process.
type holding struct {
	held    bool
	version string    // resourceVersion at the last read
	since   time.Time // when that version was seen first
	read    time.Time
}

// held reports whether a Lease is held by a process, as of the last renewTime. An error does not change what is known; a
// Lease that may not be read counts as held.
func (o *others) held(ctx context.Context, name string) bool {
	h, now := o.known[name], time.Now()
	if h == nil {
		h = &holding{held: true}
		o.known[name] = h
	} else if now.Sub(h.read) < renewTime {
		return h.held
	}
	h.read = now
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	u, err := o.client.in(leases).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		if h.held = h.held && !apierrors.IsNotFound(err); ctx.Err() == nil {
			o.client.log.Debug("lease", "name", name, "err", err)
		}
		return h.held
	}
	if v := u.GetResourceVersion(); v != h.version {
		h.version, h.since = v, now
	}
	holder, _, _ := unstructured.NestedString(u.Object, "spec", "holderIdentity")
	h.held = holder != "" && now.Sub(h.since) < leaseTime
	return h.held
}
