package cluster

import (
	"slices"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
)

// fieldsOf is the part of a status that a field manager writes.
type fieldsOf struct {
	manager string
	status  object.Status
}

// plan returns what is to be written so that the status of an object is as reported, given the one that it has.
func (w *writer) plan(r resolve.Report, now object.Status) []fieldsOf {
	if r.Object.Kind != object.Server {
		return w.planShared(r, now)
	}
	want := r.Status
	want.Lease = w.source.lease.name
	if same(now, want) || !w.writes(r.Object.Name) {
		return nil
	}
	return []fieldsOf{{fieldManager, want}}
}

// planShared is plan for a tool or an entry. Each element of servers is written together with the conditions of the object.
func (w *writer) planShared(r resolve.Report, now object.Status) (all []fieldsOf) {
	own, others, gone := w.split(r.Status.Servers, now.Servers)
	servers := slices.Concat(own, others)
	slices.SortFunc(servers, func(a, b object.ServerStatus) int { return strings.Compare(a.Name, b.Name) })
	elsewhere := r.Elsewhere || len(own) < len(r.Status.Servers)
	want := r.Merge(servers, elsewhere)
	with := func(one ...object.ServerStatus) object.Status {
		s := want
		s.Servers = one
		return s
	}
	for _, name := range gone {
		all = append(all, fieldsOf{managerOf(name), with()})
	}
	for _, one := range own {
		if last := now.Server(one.Name); last == nil || !sameServer(*last, one) {
			all = append(all, fieldsOf{managerOf(one.Name), with(one)})
		}
	}
	now.Servers = servers
	switch {
	case len(all) > 0 || same(now, want):
	case len(own) > 0:
		all = append(all, fieldsOf{managerOf(own[0].Name), with(own[0])})
	case len(others) == 0 && !elsewhere:
		all = append(all, fieldsOf{fieldManager, want})
	}
	return all
}

// split returns the elements of servers that this process writes, those of other processes, and the names of those that
// are to be removed.
func (w *writer) split(reported, now []object.ServerStatus) (own, others []object.ServerStatus, gone []string) {
	is := map[string]bool{}
	for _, one := range reported {
		if w.writes(one.Name) {
			own, is[one.Name] = append(own, one), true
		}
	}
	for _, one := range now {
		switch {
		case is[one.Name]:
		case w.writes(one.Name) || !w.source.exists(one.Name):
			gone = append(gone, one.Name)
		default:
			others = append(others, one)
		}
	}
	return own, others, gone
}

// writes reports whether this process writes the status of a server: that of --server, or one that names no Lease that
// another process holds, as of its newest status.
func (w *writer) writes(server string) bool {
	if only := w.source.options.Only; only != "" {
		return only == server
	}
	lease := w.source.leaseOf(server)
	w.mu.Lock()
	defer w.mu.Unlock()
	return !isOther(lease) || w.free[lease]
}

// leaseOf returns the Lease that the status of a server names.
func (s *Source) leaseOf(server string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.servers.objects[server]; h != nil {
		return h.status.Lease
	}
	return ""
}

// exists reports whether a VirtualMCPServer exists.
func (s *Source) exists(server string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers.objects[server] != nil
}

// same reports whether two statuses are equal but for times.
func same(a, b object.Status) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.AppliedGeneration == b.AppliedGeneration && a.Path == b.Path && a.Lease == b.Lease &&
		sameConditions(a.Conditions, b.Conditions) && slices.EqualFunc(a.Servers, b.Servers, sameServer)
}

func sameServer(a, b object.ServerStatus) bool {
	return a.Name == b.Name && a.AppliedGeneration == b.AppliedGeneration && sameConditions(a.Conditions, b.Conditions)
}

// sameConditions ignores the order.
func sameConditions(a, b []object.Condition) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(c object.Condition) bool {
		other := conditionOf(b, c.Type)
		c.LastTransitionTime = other.LastTransitionTime
		return c != other
	})
}

func conditionOf(all []object.Condition, kind string) object.Condition {
	s := object.Status{Conditions: all}
	return s.Condition(kind)
}

// timed returns a status with lastTransitionTime set: that of before where the condition's status is unchanged, else now.
func timed(s, before object.Status, now time.Time) object.Status {
	s.Conditions = timedConditions(s.Conditions, before.Conditions, now)
	s.Servers = slices.Clone(s.Servers)
	for i := range s.Servers {
		one, last := &s.Servers[i], []object.Condition(nil)
		if b := before.Server(one.Name); b != nil {
			last = b.Conditions
		}
		one.Conditions = timedConditions(one.Conditions, last, now)
	}
	return s
}

func timedConditions(all, before []object.Condition, now time.Time) []object.Condition {
	all = slices.Clone(all)
	for i := range all {
		c := &all[i]
		last := conditionOf(before, c.Type)
		if c.LastTransitionTime = now.UTC().Format(time.RFC3339); last.Status == c.Status {
			c.LastTransitionTime = last.LastTransitionTime
		}
	}
	return all
}
