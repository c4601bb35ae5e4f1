package cluster

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/vmcp-dev/vmcp/internal/diag"
)

const (
	// quietTime is the debounce of changes, gatherTime its maximum: a folder of manifests is applied object by object.
	quietTime  = 10 * time.Millisecond
	gatherTime = 100 * time.Millisecond
	// referenceTime is how long resolving waits for the first read of ConfigMaps, Secrets and ToolHive's kinds.
	referenceTime = 2 * time.Second
	// againTime is the delay before a configuration is retried that could not be applied for another reason than its
	// content, such as an unreachable database. It doubles with each failure in a row, up to longestAgain.
	againTime    = time.Second
	longestAgain = 30 * time.Second
)

// Servers serve the configurations of a Source.
type Servers interface {
	// Known sets the names of all servers, served or not. Servers that are not among them are closed.
	Known(names []string)
	// Apply serves a server with a configuration; with nil the server is known, but not served. Calls for one server
	// never overlap; calls for different servers do.
	Apply(name string, cfg *config.Config) error
	// Backends returns the state of a server's backends, as resolve.Live does.
	Backends(server string) map[string]string
	// Changed receives a value when the result of Backends may have changed.
	Changed() <-chan struct{}
}

// Options are what a Source needs beside an API server.
type Options struct {
	Resolver *resolve.Resolver
	Servers  Servers
	// Only is the name of the one server that the Resolver resolves; "" for all. Its status is written under a Lease of its own.
	Only string
	// Identity is the name of this process, as the holder of the lease and the reporter of events.
	Identity string
}

// A Source watches the objects of a namespace and applies the configurations that package resolve makes of them.
//
//	watches ──► sets of objects ──► gather ──► resolve ──► appliers, one per server ──► Servers.Apply
//	                ▲                            │                    ▲                      │
//	                └─ references are watched ◄──┘                    └─────── applied ◄── results
//	                                                                             └──► report ──► writer: status, events
//
// The goroutine of loop resolves and owns the appliers; reflectors put objects into the sets (under mu) and send to changes;
// each Servers.Apply runs in a separate goroutine and sends its result to results. Nothing is resolved before all four
// kinds were listed once, so that no server is served without tools that were not read yet. A ConfigMap or Secret is watched
// by name while an object refers to it; ToolHive's kinds are watched as a whole from the first reference on. Resolving
// waits for the first response to a new watch, but at most referenceTime after the first of them was started.
//
// A server has at most one Apply at a time. If a newer configuration is resolved meanwhile, it is not queued: after the
// result the newest state is resolved again. If Apply refuses a configuration, resolve.Resolver.Refused returns the
// replacement: a configuration without the refused objects; none, and the previous one stays in force; or a nil
// Config, and the server is no longer served, since its access rules have changed and cannot be applied. A failure that is
// not a problem of the configuration is retried with backoff, see untilLook. The reason is written to the object's status.
//
// Every replica serves; only the holder of the lease writes status and events, see writer. Reports are made while no Apply is
// running.
// While the API server does not answer, the last known objects stay in force.
type Source struct {
	client  *Client
	options Options
	log     *slog.Logger
	work    sync.WaitGroup
	changes chan struct{} // cap 1: objects have changed
	results chan result   // of Servers.Apply
	writer  *writer
	lease   *lease

	mu         sync.Mutex // guards all below
	servers    set[object.VirtualMCPServer]
	entries    set[object.MCPServerEntry]
	scripted   set[object.VirtualMCPScriptedToolDefinition]
	composites set[object.VirtualMCPCompositeToolDefinition]
	configMaps set[object.ConfigMap]
	secrets    set[object.Secret]
	theirs     map[string]*set[json.RawMessage] // ToolHive's objects by kind, once one is referenced
	kinds      []*watch                         // of the four kinds
	named      map[string]*watch                // of ConfigMaps and Secrets, and of ToolHive's kinds, by resource.String
	waiting    time.Time                        // when the wait for references began; zero: none
	away       bool                             // the API server did not answer the last request
	synced     time.Time                        // when the last list was received
	complete   bool                             // the first complete state was applied
	rejected   bool                             // the last configuration of a server was refused

	appliers map[string]*applier // belongs to the goroutine of loop
}

// applier is the state of one server's Apply calls.
type applier struct {
	busy   bool // an Apply is running
	again  bool // a newer configuration was resolved meanwhile
	failed int  // failures in a row, see againTime
}

// result is the result of one Servers.Apply.
type result struct {
	of  *resolve.Server
	err error
}

// New makes a Source. Run starts it.
func New(c *Client, o Options) *Source {
	s := &Source{client: c, options: o, log: c.log, changes: make(chan struct{}, 1), results: make(chan result), named: map[string]*watch{}, appliers: map[string]*applier{}}
	s.servers = newSet(s, object.Decode[object.ServerSpec])
	s.entries = newSet(s, object.Decode[object.EntrySpec])
	s.scripted = newSet(s, object.Decode[object.ScriptedSpec])
	s.composites = newSet(s, object.Decode[object.CompositeSpec])
	s.configMaps = newSet(s, object.DecodeConfigMap)
	s.secrets = newSet(s, object.DecodeSecret)
	s.theirs = map[string]*set[json.RawMessage]{}
	s.lease = newLease(c, LeaseOf(o.Only), o.Identity)
	s.writer = newWriter(s)
	return s
}

func newSet[T any](s *Source, decode func([]byte) (*T, error)) set[T] {
	return set[T]{source: s, decode: decode, objects: map[string]*held[T]{}}
}

// Run watches and applies until ctx ends, and returns when all its goroutines have ended.
func (s *Source) Run(ctx context.Context) {
	defer s.work.Wait()
	s.mu.Lock()
	s.kinds = []*watch{
		follow(ctx, s, ofKind(object.Server), &s.servers), follow(ctx, s, ofKind(object.Entry), &s.entries),
		follow(ctx, s, ofKind(object.Scripted), &s.scripted), follow(ctx, s, ofKind(object.Composite), &s.composites),
	}
	s.mu.Unlock()
	s.work.Go(func() { s.lease.renewUntil(ctx, s.writer.changed) })
	s.work.Go(func() { s.writer.run(ctx) })
	s.loop(ctx)
	s.drain()
}

func ofKind(k object.Kind) resource {
	return resource{schema.GroupVersionResource{Group: object.Group, Version: object.Version, Resource: k.Plural}, k.Name, ""}
}

// loop resolves and applies after each change until ctx ends.
func (s *Source) loop(ctx context.Context) {
	look := time.NewTimer(time.Hour) // see untilLook
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-s.results:
			s.applied(r)
			look.Reset(s.untilLook())
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

// gather waits until nothing has changed for quietTime, at most gatherTime.
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

// noteChange makes loop resolve again.
func (s *Source) noteChange() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// resolve makes configurations of the current state and starts to apply those that differ from the applied ones. It
// returns false while the state is not complete.
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
		v := all[name]
		if a := s.appliers[name]; a != nil && v.Config == nil {
			a.failed = 0
		}
		if !v.Same {
			s.apply(v)
		}
	}
	return true
}

// state returns the objects of the namespace; false while a kind was not listed yet, or while the first read of a
// reference is waited for. It starts watches of new references and stops those of references that are gone.
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

// awaitsReferences reports whether a watch in named has had no response yet and referenceTime has not passed. After that
// the watch counts as tried and is not waited for again. mu is held.
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

// untilLook is the time until resolve is called without a change: when the wait for references ends, or when a configuration
// that could not be applied is retried. An hour if neither is due.
func (s *Source) untilLook() time.Duration {
	until := time.Hour
	for _, a := range s.appliers {
		if a.failed > 0 {
			until = min(until, againTime<<min(a.failed-1, 10), longestAgain)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waiting.IsZero() {
		until = min(until, max(0, referenceTime-time.Since(s.waiting)))
	}
	return until
}

// followNamed watches the ConfigMaps and Secrets in refs, each by its name, and stops the watches of all others: this
// process reads no Secret that no object refers to. mu is held.
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

// followTheirs watches ToolHive's kinds once a VirtualMCPServer refers to one of their objects, and translates the objects
// into state. Requests for kinds that are not installed are retried; until then they have no objects. mu is held.
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
		all.whole = true // the URLs of backends are in the status
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

// apply starts a Servers.Apply. If one of the same server is running, applied resolves again after it.
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

// applied handles the result of a Servers.Apply. If the configuration was refused, it applies the replacement that
// Resolver.Refused returns, unless a newer configuration is waiting.
func (s *Source) applied(r result) {
	a := s.appliers[r.of.Name]
	a.busy = false
	s.mu.Lock()
	s.rejected = r.err != nil
	s.mu.Unlock()
	var instead *resolve.Server
	if r.err != nil || r.of.Config != nil { // Apply(nil) in place of a failed configuration does not reset its backoff
		a.failed = failures(a.failed, r.err)
	}
	if r.err == nil {
		s.options.Resolver.Applied(r.of)
	} else {
		s.log.Error("configuration not applied, the previous version stays in force", "server", r.of.Name, "err", r.err)
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

// failures counts the transient failures in a row. Problems of a configuration are not transient: they reset the count.
func failures(before int, err error) int {
	if err == nil || errors.As(err, new(diag.Problems)) || errors.As(err, new(diag.Problem)) {
		return 0
	}
	return before + 1
}

// report passes the reports on all objects to the writer, unless an Apply is running.
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

// drain waits for the running Apply calls.
func (s *Source) drain() {
	for _, a := range s.appliers {
		if a.busy {
			<-s.results
		}
	}
}

// Health is the state of a Source.
type Health struct {
	Kind      string `json:"kind"` // kubernetes
	Namespace string `json:"namespace"`
	// Synced: all watched resources were listed, and their last requests succeeded. ToolHive's kinds need not be installed.
	Synced bool `json:"synced"`
	// Error is the errors of the watches, at most five.
	Error string `json:"error,omitempty"`

	// Complete: the first complete state was applied.
	Complete bool `json:"-"`
	// Waiting is the error of a kind that was not listed yet. It is public: it names no object.
	Waiting string `json:"-"`
}

// Health returns the state of the source.
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
		if w.of.Group != object.ToolHiveGroup || !apierrors.IsNotFound(w.err) { // ToolHive need not be installed
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

// Stats are the counts of a Source, for metrics.
type Stats struct {
	Objects  []Count
	Synced   time.Time      // when the last list was received; zero: never
	Writes   map[string]int // of statuses, by outcome: ok, gone, error
	Accepted bool           // the last configuration of a server was applied
}

// Count is the number of objects of a kind.
type Count struct {
	Kind               string
	Accepted, Rejected int
}

// Stats returns the current counts.
func (s *Source) Stats() Stats {
	st := Stats{Writes: s.writer.counts(), Objects: s.writer.objects()}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Synced, st.Accepted = s.synced, !s.rejected
	return st
}
