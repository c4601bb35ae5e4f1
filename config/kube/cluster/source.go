package cluster

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/config/kube/resolve"
	"github.com/vmcp-dev/vmcp/config/kube/toolhive"
)

const (
	// quietTime is how long nothing may have changed before what has is looked at, gatherTime how long changes are
	// gathered at the most: a folder of manifests is applied object by object.
	quietTime  = 10 * time.Millisecond
	gatherTime = 100 * time.Millisecond
	// referenceTime is how long objects wait for ConfigMaps and Secrets that are read for the first time.
	referenceTime = 2 * time.Second
)

// Servers serve what a Source hands out.
type Servers interface {
	// Known says which servers there are, served or not. Those that are gone are closed.
	Known(names []string)
	// Apply brings a server to a configuration; nil: it is known, and not served. It is called for one version of
	// a server at a time, and for several servers at once.
	Apply(name string, cfg *config.Config) error
	// Backends says which backends of a server answer, as resolve.Live does.
	Backends(server string) map[string]string
	// Changed receives when that may have changed.
	Changed() <-chan struct{}
}

// Options are what a Source needs beside an API server.
type Options struct {
	Resolver *resolve.Resolver
	Servers  Servers
	// Identity is the name of this process among those that write status.
	Identity string
}

// Source follows the objects of a namespace.
type Source struct {
	client  *Client
	options Options
	log     *slog.Logger
	work    sync.WaitGroup
	changes chan struct{} // cap 1: objects have changed
	results chan result   // what became of configurations
	writer  *writer
	lease   *lease

	mu         sync.Mutex // guards all below
	servers    set[object.VirtualMCPServer]
	entries    set[object.MCPServerEntry]
	scripted   set[object.VirtualMCPScriptedToolDefinition]
	composites set[object.VirtualMCPCompositeToolDefinition]
	configMaps set[object.ConfigMap]
	secrets    set[object.Secret]
	theirs     map[string]*set[json.RawMessage] // ToolHive's objects by kind, those that are followed
	kinds      []*watch                         // of the four kinds
	named      map[string]*watch                // of ConfigMaps and Secrets, and of ToolHive's kinds, by resource.String
	waiting    time.Time                        // since when references are waited for; zero: they are not
	away       bool                             // the API server did not answer the last request
	synced     time.Time                        // when a list came last
	complete   bool                             // the first complete state is applied
	rejected   bool                             // the last configuration of a server was refused

	appliers map[string]*applier // of the loop
}

// applier brings one server to its newest configuration.
type applier struct {
	busy  bool
	again bool // there was another version meanwhile
}

// result is what became of a configuration.
type result struct {
	of  *resolve.Server
	err error
}

// New makes a Source; Run follows.
func New(c *Client, o Options) *Source {
	s := &Source{client: c, options: o, log: c.log, changes: make(chan struct{}, 1), results: make(chan result), named: map[string]*watch{}, appliers: map[string]*applier{}}
	s.servers = newSet(s, object.Decode[object.ServerSpec])
	s.entries = newSet(s, object.Decode[object.EntrySpec])
	s.scripted = newSet(s, object.Decode[object.ScriptedSpec])
	s.composites = newSet(s, object.Decode[object.CompositeSpec])
	s.configMaps = newSet(s, object.DecodeConfigMap)
	s.secrets = newSet(s, object.DecodeSecret)
	s.theirs = map[string]*set[json.RawMessage]{}
	s.lease = newLease(c, o.Identity)
	s.writer = newWriter(s)
	return s
}

func newSet[T any](s *Source, decode func([]byte) (*T, error)) set[T] {
	return set[T]{source: s, decode: decode, objects: map[string]*held[T]{}}
}

// Run follows the objects until ctx ends, and returns when all its goroutines have.
func (s *Source) Run(ctx context.Context) {
	defer s.work.Wait()
	s.mu.Lock()
	s.kinds = []*watch{
		follow(ctx, s, ofKind(object.Server), &s.servers), follow(ctx, s, ofKind(object.Entry), &s.entries),
		follow(ctx, s, ofKind(object.Scripted), &s.scripted), follow(ctx, s, ofKind(object.Composite), &s.composites),
	}
	s.mu.Unlock()
	s.work.Go(func() { s.lease.hold(ctx, s.writer.changed) })
	s.work.Go(func() { s.writer.run(ctx) })
	s.loop(ctx)
	s.drain()
}

func ofKind(k object.Kind) resource {
	return resource{schema.GroupVersionResource{Group: object.Group, Version: object.Version, Resource: k.Plural}, k.Name, ""}
}

// loop looks at what has changed until ctx ends.
func (s *Source) loop(ctx context.Context) {
	look := time.NewTimer(time.Hour) // at references that were waited for
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-s.results:
			s.applied(r)
			continue
		case <-s.options.Servers.Changed():
		case <-s.changes:
			s.gather(ctx)
		case <-look.C:
		}
		if s.resolve(ctx) {
			s.report()
		}
		look.Reset(s.untilLook())
	}
}

// gather waits until nothing has changed for a moment.
func (s *Source) gather(ctx context.Context) {
	late := time.NewTimer(gatherTime)
	defer late.Stop()
	for {
		still := time.NewTimer(quietTime)
		select {
		case <-s.changes:
			still.Stop()
			continue
		case <-still.C:
		case <-late.C:
		case <-ctx.Done():
		}
		still.Stop()
		return
	}
}

// noteChange has the loop look at what there is.
func (s *Source) noteChange() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// resolve makes configurations of what there is, and has those applied that are new. False while
// what there is, is not known.
func (s *Source) resolve(ctx context.Context) bool {
	state, ok := s.state(ctx)
	if !ok {
		return false
	}
	all := s.options.Resolver.Resolve(state)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	s.options.Servers.Known(names)
	for name := range s.appliers {
		if all[name] == nil && !s.appliers[name].busy {
			delete(s.appliers, name)
		}
	}
	for _, name := range names {
		if v := all[name]; !v.Same {
			s.apply(v)
		}
	}
	return true
}

// state is what the namespace holds; false while that is not known. The references of objects are followed
// first: for a moment a new one is waited for.
func (s *Source) state(ctx context.Context) (*resolve.State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.kinds {
		if !w.synced {
			return nil, false
		}
	}
	state := &resolve.State{
		Servers: s.servers.snapshot(), Entries: s.entries.snapshot(), Scripted: s.scripted.snapshot(), Composites: s.composites.snapshot(),
		ConfigMaps: s.configMaps.snapshot(), Secrets: s.secrets.snapshot(),
	}
	s.followTheirs(ctx, state)
	refs := resolve.FindReferences(state)
	s.followNamed(ctx, refs)
	return state, !s.awaitsReferences()
}

// awaitsReferences reports whether something that objects refer to is being read for the first time, and has had
// no time for it. It is waited for once. mu is held.
func (s *Source) awaitsReferences() bool {
	for _, w := range s.named {
		switch {
		case w.tried:
		case s.waiting.IsZero():
			s.waiting = time.Now()
			return true
		case time.Since(s.waiting) < referenceTime:
			return true
		default:
			w.tried = true
		}
	}
	s.waiting = time.Time{}
	return false
}

// untilLook is when references that are waited for are not waited for any longer.
func (s *Source) untilLook() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.IsZero() {
		return time.Hour
	}
	return max(0, referenceTime-time.Since(s.waiting))
}

// followNamed follows the ConfigMaps and Secrets that are referred to, each by its name, and no others: a
// namespace has Secrets that are nobody's business. mu is held.
func (s *Source) followNamed(ctx context.Context, refs resolve.References) {
	wanted := map[string]bool{}
	for _, name := range refs.ConfigMaps {
		r := core("configmaps", "ConfigMap", name)
		if wanted[r.String()] = true; s.named[r.String()] == nil {
			s.named[r.String()] = follow(ctx, s, r, &s.configMaps)
		}
	}
	for _, name := range refs.Secrets {
		r := core("secrets", "Secret", name)
		if wanted[r.String()] = true; s.named[r.String()] == nil {
			s.named[r.String()] = follow(ctx, s, r, &s.secrets)
		}
	}
	for key, w := range s.named {
		if wanted[key] || w.of.name == "" {
			continue
		}
		w.stop()
		delete(s.named, key)
		if kind, name, _ := strings.Cut(key, " "); kind == "Secret" {
			s.secrets.remove(name)
		} else {
			s.configMaps.remove(name)
		}
	}
}

// followTheirs follows ToolHive's kinds from when an object of ours names one of theirs, and reads them into state.
// Kinds that are not there are looked for again and again; until then they have no objects. mu is held.
func (s *Source) followTheirs(ctx context.Context, state *resolve.State) {
	servers, issuers := false, false
	for _, o := range state.Servers {
		servers = servers || o.Spec.From != nil
		issuers = issuers || o.Spec.IncomingAuth != nil && o.Spec.IncomingAuth.OIDCConfigRef != nil
	}
	for _, kind := range toolhive.Kinds {
		if s.theirs[kind.Name] != nil || !servers && (!issuers || kind.Plural != "mcpoidcconfigs") {
			continue
		}
		all := newSet(s, func(data []byte) (*json.RawMessage, error) { raw := json.RawMessage(data); return &raw, nil })
		all.whole = true // their URLs are in their status
		s.theirs[kind.Name] = &all
		r := resource{schema.GroupVersionResource{Group: object.ToolHiveGroup, Version: toolhive.Version, Resource: kind.Plural}, kind.Name, ""}
		s.named[r.String()] = follow(ctx, s, r, &all)
	}
	set := toolhive.Set{}
	for kind, all := range s.theirs {
		for name, h := range all.objects {
			set.Put(kind, name, *h.value)
		}
	}
	state.ToolHive, state.OIDC = map[string]*resolve.Translation{}, toolhive.Issuers(set)
	for _, o := range state.Servers {
		if from := o.Spec.From; from != nil {
			if t := toolhive.Translate(set, from.ToolHive); t != nil {
				state.ToolHive[from.ToolHive] = t
			}
		}
	}
}

func core(plural, kind, name string) resource {
	return resource{schema.GroupVersionResource{Version: "v1", Resource: plural}, kind, name}
}

// apply has a configuration applied. While one of the same server is, what comes after it is found out when it is over.
func (s *Source) apply(v *resolve.Server) {
	a := s.appliers[v.Name]
	if a == nil {
		a = &applier{}
		s.appliers[v.Name] = a
	}
	if a.busy {
		a.again = true
		return
	}
	a.busy = true
	s.work.Go(func() { s.results <- result{v, s.options.Servers.Apply(v.Name, v.Config)} })
}

// applied takes what became of a configuration. For one that was refused, one without what is wrong in it is
// applied in its place, if there is one.
func (s *Source) applied(r result) {
	a := s.appliers[r.of.Name]
	a.busy = false
	s.mu.Lock()
	s.rejected = r.err != nil
	s.mu.Unlock()
	var instead *resolve.Server
	if r.err == nil {
		s.options.Resolver.Applied(r.of)
	} else {
		s.log.Error("configuration not applied, the version before goes on", "server", r.of.Name, "err", r.err)
		instead = s.options.Resolver.Refused(r.of, r.err)
	}
	switch {
	case a.again:
		a.again = false
		s.noteChange()
	case instead != nil:
		s.apply(instead)
	default:
		s.report()
	}
}

// report has written what became of the objects, once all configurations are applied.
func (s *Source) report() {
	for _, a := range s.appliers {
		if a.busy {
			return
		}
	}
	s.mu.Lock()
	if !s.complete {
		s.complete = true
		s.log.Info("kubernetes: the first complete state is applied", "servers", len(s.servers.objects), "backends", len(s.entries.objects), "tools", len(s.scripted.objects)+len(s.composites.objects))
	}
	s.mu.Unlock()
	s.writer.want(s.options.Resolver.Reports(s.options.Servers.Backends))
}

// drain waits for the configurations that are being applied.
func (s *Source) drain() {
	for _, a := range s.appliers {
		if a.busy {
			<-s.results
		}
	}
}

// Health is what a Source knows of its cluster.
type Health struct {
	Kind      string `json:"kind"` // kubernetes
	Namespace string `json:"namespace"`
	// Synced: everything was read, and is followed.
	Synced bool `json:"synced"`
	// Error is why not, or what does not answer at the moment.
	Error string `json:"error,omitempty"`

	// Complete: the first complete state is applied.
	Complete bool `json:"-"`
	// Waiting is why it is not, as everybody may know: it names no object.
	Waiting string `json:"-"`
}

// Health says how the source is.
func (s *Source) Health() Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Health{Kind: "kubernetes", Namespace: s.client.Namespace, Synced: len(s.kinds) > 0, Complete: s.complete}
	var wrong []string
	look := func(w *watch) {
		h.Synced = h.Synced && w.synced && w.err == nil
		if w.err != nil {
			wrong = append(wrong, explain(w.of, w.err))
		}
	}
	for _, w := range s.kinds {
		look(w)
		if !w.synced && h.Waiting == "" {
			h.Waiting = explain(w.of, w.err)
		}
	}
	for _, w := range s.named {
		if w.of.Group != object.ToolHiveGroup || !apierrors.IsNotFound(w.err) { // it need not be installed
			look(w)
		}
	}
	slices.Sort(wrong)
	if more := len(wrong) - 5; more > 0 {
		wrong = append(wrong[:5], "…")
	}
	h.Error = strings.Join(wrong, "; ")
	return h
}

// Stats are what a Source has counted.
type Stats struct {
	Objects  []Count
	Synced   time.Time      // when a list came last; zero: none did
	Writes   map[string]int // of statuses, by outcome: ok, gone, error
	Accepted bool           // the last configuration of a server was applied
}

// Count is how many objects of a kind there are.
type Count struct {
	Kind               string
	Accepted, Rejected int
}

// Stats reads what there is now.
func (s *Source) Stats() Stats {
	st := Stats{Writes: s.writer.counts(), Objects: s.writer.objects()}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Synced, st.Accepted = s.synced, !s.rejected
	return st
}
