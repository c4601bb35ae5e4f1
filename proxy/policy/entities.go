package policy

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go"
)

// Identity is the authenticated caller.
type Identity struct {
	Issuer, Subject string
	Groups, Scopes  []string // roles are groups
	Client          string   // the OAuth client
	Claims          map[string]any
	Profile         string // the profile of the endpoint that is used; "" for none
}

// A Principal is an identity as a Cedar entity. It belongs to one Set.
type Principal struct {
	identity Identity
	entity   cedar.Entity
	claims   cedar.RecordMap // of the context
	record   cedar.Record    // claims as a record, for requests without arguments
	class    [sha256.Size]byte

	mu   sync.Mutex
	more map[*compiled]*Principal // guarded by mu: the principal with the scopes of a policy added
}

// Principal makes a principal. It is expensive, and should be kept for the lifetime of the credential.
func (s *Set) Principal(id Identity) *Principal {
	p := &Principal{identity: id, claims: cedar.RecordMap{}}
	attributes := cedar.RecordMap{
		"groups": textSet(id.Groups), "scopes": textSet(id.Scopes),
		"issuer": cedar.String(id.Issuer), "client": cedar.String(id.Client),
	}
	claim := func(name string, value cedar.Value) {
		name = "claim_" + name
		attributes[cedar.String(name)] = value
		if s.uses.mayRead(name) {
			p.claims[cedar.String(name)] = value
		}
	}
	if _, has := id.Claims["sub"]; !has {
		claim("sub", cedar.String(id.Subject))
	}
	for name, v := range id.Claims {
		if value, ok := toValue(v); ok {
			claim(name, value)
		}
	}
	if s.uses.mayRead("profile") {
		p.claims["profile"] = cedar.String(id.Profile)
	}
	var parents []cedar.EntityUID
	for _, g := range id.Groups {
		parents = append(parents, cedar.NewEntityUID(s.groups, cedar.String(g)))
	}
	uid := cedar.NewEntityUID("Client", cedar.String(id.Subject))
	p.entity = s.completed(cedar.Entity{UID: uid, Parents: cedar.NewEntityUIDSet(parents...), Attributes: cedar.NewRecord(attributes)})
	p.record = cedar.NewRecord(p.claims)
	p.class = s.classOf(p)
	return p
}

// completed merges an entity with the configured one of its UID (entitiesJson). Attributes of e take
// precedence.
func (s *Set) completed(e cedar.Entity) cedar.Entity {
	given, ok := s.entities[e.UID]
	if !ok {
		return e
	}
	attributes := given.Attributes.Map()
	if attributes == nil {
		attributes = cedar.RecordMap{}
	}
	maps.Copy(attributes, e.Attributes.Map())
	parents := slices.AppendSeq(slices.Collect(given.Parents.All()), e.Parents.All())
	return cedar.Entity{UID: e.UID, Parents: cedar.NewEntityUIDSet(parents...), Attributes: cedar.NewRecord(attributes), Tags: given.Tags}
}

// Class is a hash that is equal only for principals with the same Possible decisions for all entries.
func (p *Principal) Class() [sha256.Size]byte { return p.class }

// with returns p with the scopes of a policy added; p itself if it has them.
func (p *Principal) with(s *Set, c *compiled) *Principal {
	var missing []string
	for _, scope := range c.scopes {
		if !slices.Contains(p.identity.Scopes, scope) {
			missing = append(missing, scope)
		}
	}
	if len(missing) == 0 {
		return p
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if more := p.more[c]; more != nil {
		return more
	}
	id := p.identity
	id.Scopes = slices.Concat(id.Scopes, missing)
	if p.more == nil {
		p.more = map[*compiled]*Principal{}
	}
	p.more[c] = s.Principal(id)
	return p.more[c]
}

// context returns the context of a Cedar request: claims and arguments.
func (p *Principal) context(arguments cedar.RecordMap) cedar.Record {
	if arguments == nil {
		return p.record
	}
	all := maps.Clone(p.claims)
	maps.Copy(all, arguments)
	return cedar.NewRecord(all)
}

func textSet(texts []string) cedar.Set {
	values := make([]cedar.Value, len(texts))
	for i, t := range texts {
		values[i] = cedar.String(t)
	}
	return cedar.NewSet(values...)
}

// Hints are the annotations of a tool's definition; nil for those that are not set.
type Hints struct {
	ReadOnly, Destructive, Idempotent, OpenWorld *bool
}

// An Entry is a tool, prompt or resource. It is immutable.
type Entry struct {
	kind      Kind
	contested bool
	// uid and attributes by the exposed name, and, if that is contested, by the origin.
	forms [2]cedar.Entity
}

// Of describes an entry.
type Of struct {
	Kind Kind
	// Name is the exposed name, the URI, or the text of a template.
	Name string
	// Backend and Original are its origin; for scripted tools "scripts" and the name.
	Backend, Original string
	// Contested is set when another backend offers Name, too.
	Contested bool
	Hints     Hints
}

// Entry makes an entry.
func (s *Set) Entry(of Of) *Entry {
	e := &Entry{kind: of.Kind, contested: of.Contested}
	e.forms[0] = s.entity(of, of.Name)
	if of.Contested {
		e.forms[1] = s.entity(of, of.Backend+"."+of.Original)
	}
	return e
}

var entityTypes = [kinds]cedar.EntityType{"Tool", "Prompt", "Resource"}

var operations = [kinds]cedar.String{"call", "get", "read"}

func (s *Set) entity(of Of, name string) cedar.Entity {
	attributes := cedar.RecordMap{
		"name": cedar.String(name), "backend": cedar.String(of.Backend), "original": cedar.String(of.Original),
		"feature": cedar.String(of.Kind.String()), "operation": operations[of.Kind],
	}
	if of.Kind == Resource {
		attributes["uri"] = cedar.String(of.Name)
	}
	for _, h := range []struct {
		name  cedar.String
		value *bool
	}{
		{"readOnlyHint", of.Hints.ReadOnly}, {"destructiveHint", of.Hints.Destructive},
		{"idempotentHint", of.Hints.Idempotent}, {"openWorldHint", of.Hints.OpenWorld},
	} {
		if h.value != nil {
			attributes[h.name] = cedar.Boolean(*h.value)
		}
	}
	return s.completed(cedar.Entity{
		UID:        cedar.NewEntityUID(entityTypes[of.Kind], cedar.String(name)),
		Parents:    cedar.NewEntityUIDSet(s.server, cedar.NewEntityUID("Backend", cedar.String(of.Backend))),
		Attributes: cedar.NewRecord(attributes),
	})
}

// world has the entities of one decision.
type world struct {
	set     *Set
	p       *Principal
	e       *Entry
	exposed bool // a contested entry is identified by its exposed name, not by its origin
}

func (w *world) entry() *cedar.Entity {
	if w.e.contested && !w.exposed {
		return &w.e.forms[1]
	}
	return &w.e.forms[0]
}

func (w *world) request(context cedar.Record) cedar.Request {
	return cedar.Request{Principal: w.p.entity.UID, Action: actionUIDs[w.e.kind], Resource: w.entry().UID, Context: context}
}

var actionUIDs = func() (uids [kinds]cedar.EntityUID) {
	for k, name := range actionNames {
		uids[k] = cedar.NewEntityUID("Action", cedar.String(name))
	}
	return uids
}()

// Get implements cedar's EntityGetter.
func (w *world) Get(uid cedar.EntityUID) (cedar.Entity, bool) {
	switch e := w.entry(); {
	case uid == w.p.entity.UID:
		return w.p.entity, true
	case uid == e.UID:
		return *e, true
	}
	e, ok := w.set.entities[uid]
	return e, ok
}

// toValue converts a JSON value to Cedar; false for fractions and null, which Cedar does not have.
func toValue(v any) (cedar.Value, bool) {
	switch v := v.(type) {
	case string:
		return cedar.String(v), true
	case bool:
		return cedar.Boolean(v), true
	case json.Number:
		return toLong(string(v))
	case float64:
		return fromFloat(v)
	case int:
		return cedar.Long(v), true
	case []any:
		var values []cedar.Value
		for _, one := range v {
			if value, ok := toValue(one); ok {
				values = append(values, value)
			}
		}
		return cedar.NewSet(values...), true
	case []string:
		return textSet(v), true
	case map[string]any:
		record := cedar.RecordMap{}
		for key, one := range v {
			if value, ok := toValue(one); ok {
				record[cedar.String(key)] = value
			}
		}
		return cedar.NewRecord(record), true
	}
	return nil, false
}

// toLong parses an integer. 1.0 and 1e0 are 1, as a tool would read them.
func toLong(text string) (cedar.Value, bool) {
	if !strings.ContainsAny(text, ".eE") {
		var n int64
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			return nil, false
		}
		return cedar.Long(n), true
	}
	var f float64
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return nil, false
	}
	return fromFloat(f)
}

func fromFloat(f float64) (cedar.Value, bool) {
	const most = 1 << 63
	if f != f || f < -most || f >= most || f != float64(int64(f)) {
		return nil, false
	}
	return cedar.Long(int64(f)), true
}
