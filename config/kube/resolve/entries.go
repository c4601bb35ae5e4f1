package resolve

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
)

// A backend is one version of a backend.
type backend struct {
	generation int64
	config     config.Backend
}

// An entry is the state of one MCPServerEntry.
type entry struct {
	object  *object.MCPServerEntry
	finding finding
	// now is the newest version that can be tried, good the one that was served last; nil: there is none.
	now, good *backend
	// refused is a version that Apply refused; why are its problems.
	refused *backend
	why     finding
}

// serves returns the version of the entry to serve; nil: none.
func (e *entry) serves() *backend {
	if e.now != nil {
		return e.now
	}
	return e.good
}

// entriesOf updates the entries to a state.
func (r *Resolver) entriesOf(l lookup) {
	maps.DeleteFunc(r.entries, func(name string, _ *entry) bool { return l.state.Entries[name] == nil })
	for name, o := range l.state.Entries {
		e := r.entries[name]
		if e == nil || e.object.UID != o.UID {
			e = &entry{}
			r.entries[name] = e
		}
		e.object, e.now, e.finding = o, nil, finding{}
		made, f := l.backend(name, &o.Spec)
		if len(o.Problems) > 0 {
			f = finding{object.ReasonInvalid, o.Problems}
		}
		version := &backend{o.Generation, made}
		switch {
		case f.found():
			e.finding = f
		case e.refused != nil && reflect.DeepEqual(e.refused.config, made):
			e.finding = e.why
		default:
			e.now = version
		}
	}
}

// backend makes a backend of the spec of an entry.
func (l lookup) backend(name string, s *object.EntrySpec) (config.Backend, finding) {
	var f finding
	b := config.Backend{Name: name, URL: s.RemoteURL, Transport: s.Transport, Timeout: s.Timeout, Sessions: s.Sessions, MaxConnections: s.MaxConnections}
	headers := maps.Clone(s.HeaderForward.AddPlaintextHeaders)
	for i, h := range s.HeaderForward.AddHeadersFromSecret {
		if headers == nil {
			headers = map[string]string{}
		}
		value := l.secret(h.ValueSecretRef, fmt.Sprintf("spec.headerForward.addHeadersFromSecret[%d].valueSecretRef", i), &f)
		if value != "" {
			headers[h.HeaderName] = value
		}
	}
	b.Headers = headers
	if s.CABundleRef != nil {
		b.TLS.CAText = l.caBundle(&s.CABundleRef.ConfigMapRef, "spec.caBundleRef.configMapRef", &f)
	}
	return b, f
}

// A member is a backend of a server's group.
type member struct {
	entry   *entry // nil for a backend of ToolHive
	version *backend
	object  string // for messages
}

// group returns the backends of a group, sorted by name.
func (r *Resolver) group(name string) (members []member) {
	for _, n := range slices.Sorted(maps.Keys(r.entries)) {
		e := r.entries[n]
		if e.object.Spec.GroupRef.Name != name {
			continue
		}
		if v := e.serves(); v != nil {
			members = append(members, member{e, v, object.Entry.Name + " " + n})
		}
	}
	return members
}
