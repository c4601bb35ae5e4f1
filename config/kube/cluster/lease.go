package cluster

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// LeaseName is the Lease whose holder writes the status of all objects.
const LeaseName = "vmcp-status"

const (
	// leaseTime is how long the holder may be silent, renewTime how often it renews.
	leaseTime = 15 * time.Second
	renewTime = 5 * time.Second
	// tryTime is how often the others look whether it is free.
	tryTime = time.Second
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// lease is this process's part in who writes. Clocks of other machines are not believed: a lease has run out when
// it has not changed for its time by the clock of who looks.
type lease struct {
	client   *Client
	identity string
	ours     atomic.Bool

	version string    // of the lease when it was looked at last
	since   time.Time // when that version was seen first
	until   time.Time // until when this process holds it
}

func newLease(c *Client, identity string) *lease { return &lease{client: c, identity: identity} }

// held reports whether this process writes.
func (l *lease) held() bool { return l.ours.Load() }

// hold takes the lease whenever it is free and keeps it until ctx ends, when it gives it back. taken
// is called when it was taken.
func (l *lease) hold(ctx context.Context, taken func()) {
	defer l.release()
	for {
		before := l.held()
		err := l.attempt(ctx, time.Now())
		if err != nil && ctx.Err() == nil {
			l.client.log.Debug("lease", "name", LeaseName, "err", err)
		}
		if err != nil && l.held() && time.Now().After(l.until) {
			l.ours.Store(false) // another one may have it by now
		}
		if l.held() && !before {
			l.client.log.Info("this process writes the status of objects", "lease", LeaseName)
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

// attempt takes or renews the lease, if it is free or ours.
func (l *lease) attempt(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	at := l.client.in(leases)
	u, err := at.Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		u = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": LeaseName, "namespace": l.client.Namespace},
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

// fill makes the lease ours.
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

// wrote takes what became of a lease that was made ours.
func (l *lease) wrote(u *unstructured.Unstructured, now time.Time, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // another one was faster
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

// release gives the lease back, so that another process has it at once.
func (l *lease) release() {
	if !l.ours.Swap(false) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	at := l.client.in(leases)
	u, err := at.Get(ctx, LeaseName, metav1.GetOptions{})
	if err == nil && u.GetResourceVersion() == l.version {
		if err = unstructured.SetNestedField(u.Object, "", "spec", "holderIdentity"); err == nil {
			_, err = at.Update(ctx, u, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		l.client.log.Debug("lease not given back", "name", LeaseName, "err", err)
	}
}
