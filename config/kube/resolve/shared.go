package resolve

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Tools and entries are shared: several servers may use one, and several processes may serve these. Each process knows
// what became of an object in the servers that it serves, and from the specs which other servers refer to it. The
// conditions of the object itself are computed from the status of all servers by Merge, which every process can do:
// whichever writes last, they are the same.

// Merge returns the status of a tool or an entry in the given servers, which may be those of other processes, too: of each
// condition the worst, and the oldest generation that is served. Without a server, elsewhere says that some refer to it.
func (r Report) Merge(servers []object.ServerStatus, elsewhere bool) object.Status {
	out := object.Status{ObservedGeneration: r.Object.Generation, Servers: servers}
	if len(servers) == 0 {
		out.Conditions = slices.Clone(r.unused)
		for i := range out.Conditions {
			if c := &out.Conditions[i]; elsewhere && c.Type == object.Ready {
				c.Reason, c.Message = object.ReasonNotServed, fmt.Sprintf("no %s that refers to it has a status", object.Server.Name)
			}
		}
		return out
	}
	out.AppliedGeneration = slices.MinFunc(servers, func(a, b object.ServerStatus) int { return int(a.AppliedGeneration - b.AppliedGeneration) }).AppliedGeneration
	for _, c := range r.unused { // their types are those of all statuses of the kind
		out.Conditions = append(out.Conditions, r.worst(c.Type, servers))
	}
	return out
}

// worst returns the worst condition of a type; of equal ones that of the oldest generation.
func (r Report) worst(kind string, servers []object.ServerStatus) object.Condition {
	rank := map[string]int{object.True: 1, object.Unknown: 2, object.False: 3}
	var worst object.Condition
	oldest := int64(0)
	for i := range servers {
		c := servers[i].Condition(kind)
		generation := servers[i].AppliedGeneration
		if kind == object.Ready && c.Status == object.True && generation < r.Object.Generation {
			// Another process has not reported the newest generation yet.
			c.Status, c.Reason, c.Message = object.Unknown, object.ReasonLastGoodServed, fmt.Sprintf("%s %s serves generation %d", object.Server.Name, servers[i].Name, generation)
		}
		if rank[c.Status] > rank[worst.Status] || c.Status == worst.Status && generation < oldest {
			worst, oldest = c, generation
		}
	}
	worst.Type, worst.LastTransitionTime = kind, ""
	if worst.Status == "" {
		worst = object.Condition{Type: kind, Status: object.Unknown, Reason: object.ReasonNotServed, Message: "no server has reported it"}
	}
	return worst
}

// in returns the status as that of the object in a server.
func (s *status) in(server string) object.ServerStatus {
	for i := range s.Status.Conditions {
		c := &s.Status.Conditions[i]
		c.Message = shortened(c.Message, object.MaxSharedMessage)
	}
	return object.ServerStatus{Name: server, AppliedGeneration: s.Status.AppliedGeneration, Conditions: s.Status.Conditions}
}

// join adds the problems that are not there yet: the same in several servers are one.
func (s *status) join(problems diag.Problems) {
	for _, p := range problems {
		if !slices.ContainsFunc(s.Problems, func(other diag.Problem) bool { return reflect.DeepEqual(other, p) }) {
			s.Problems = append(s.Problems, p)
		}
	}
}

// over completes the report of a tool or an entry, whose conditions are those of one without a server.
func (s *status) over(servers []object.ServerStatus, elsewhere bool) Report {
	s.unused, s.Elsewhere = s.Status.Conditions, elsewhere
	s.Status = s.Merge(servers, elsewhere)
	return s.Report
}

// referred are the tools and groups that the specs of servers refer to.
type referred struct {
	tools  map[string]bool // by object.Ref.String
	groups map[string]bool
}

// others finds what the servers that are not resolved refer to.
func (r *Resolver) others() referred {
	found := referred{map[string]bool{}, map[string]bool{}}
	for name, o := range r.state.Servers {
		if r.wanted(name) {
			continue
		}
		for _, ref := range o.Spec.Config.ScriptedToolRefs {
			found.tools[object.Ref{Kind: object.Scripted, Name: ref.Name}.String()] = true
		}
		for _, ref := range o.Spec.Config.CompositeToolRefs {
			found.tools[object.Ref{Kind: object.Composite, Name: ref.Name}.String()] = true
		}
		if o.Spec.GroupRef != nil {
			found.groups[o.Spec.GroupRef.Name] = true
		}
	}
	return found
}
