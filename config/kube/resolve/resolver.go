package resolve

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// A Resolver makes configurations of the objects of a namespace. It remembers the versions that were served last.
// Its methods may be called from several goroutines.
type Resolver struct {
	options Options

	mu      sync.Mutex
	checks  *checks            // guarded by mu
	state   *State             // guarded by mu
	servers map[string]*server // guarded by mu
	entries map[string]*entry  // guarded by mu
}

// New is a Resolver that has seen nothing.
func New(o Options) *Resolver {
	return &Resolver{options: o, checks: newChecks(o.Check), state: &State{}, servers: map[string]*server{}, entries: map[string]*entry{}}
}

// Resolve makes of a state what is to be served, by the names of the VirtualMCPServers. A server that is not in
// the answer is not there any more.
func (r *Resolver) Resolve(state *State) map[string]*Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = state
	r.checks.begin()
	l := lookup{state, r.options.Offline}
	r.entriesOf(l)
	maps.DeleteFunc(r.servers, func(name string, _ *server) bool { return state.Servers[name] == nil || !r.wanted(name) })
	made := map[string]*Server{}
	for _, name := range slices.Sorted(maps.Keys(state.Servers)) {
		o := state.Servers[name]
		if !r.wanted(name) {
			continue
		}
		s := r.servers[name]
		if s == nil || s.object.UID != o.UID {
			s = &server{}
			r.servers[name] = s
		}
		s.object = o
		r.prepare(l, s)
		r.find(l, s)
		made[name] = r.build(s)
	}
	r.checks.end()
	return made
}

func (r *Resolver) wanted(name string) bool { return r.options.Only == "" || r.options.Only == name }

// A build is what a configuration was made of.
type build struct {
	version *serverVersion
	tools   map[string]part // by their paths in the configuration
	members map[string]member
	config  *config.Config // as it was handed out
	tries   int
}

// A part is a tool of a configuration.
type part struct {
	use  *use // nil: of the server's own config
	tool *tool
}

// build makes the configuration of a server of the versions that can be tried.
func (r *Resolver) build(s *server) *Server {
	out := &Server{Name: s.object.Name, of: s}
	s.made, s.tools = out, len(s.uses)
	v := s.serves()
	if v == nil {
		s.served = false
		return out
	}
	s.tools += len(v.own)
	b := &build{version: v, tools: map[string]part{}, members: map[string]member{}}
	cfg := v.base.Fork()
	s.members = v.backends
	if v.group != "" {
		s.members = r.group(v.group)
	}
	for i, m := range s.members {
		cfg.Backends = append(cfg.Backends, m.version.config)
		b.members[config.IndexPath("backends", i)] = m
	}
	add := func(p part) {
		path := config.IndexPath("scriptedTools", len(cfg.ScriptedTools))
		if p.tool.composite != nil {
			path = config.IndexPath("compositeTools", len(cfg.CompositeTools))
		}
		b.tools[path] = p
		put(cfg, p.tool)
	}
	s.unnamed(v, cfg, r.options.Offline)
	for _, t := range r.choose(s, v) {
		add(part{tool: t})
	}
	for _, u := range s.uses {
		if u.taken != nil {
			add(part{u, u.taken})
		}
	}
	cfg.Complete()
	b.config = cfg.Fork()
	b.config.ScriptedTools, b.config.Backends = slices.Clone(cfg.ScriptedTools), slices.Clone(cfg.Backends)
	out.Config, out.built, out.Same = cfg, b, s.served && reflect.DeepEqual(b.config, s.applied)
	return out
}

// Applied notes that the configuration of a server is served: its versions are good.
func (r *Resolver) Applied(of *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, b := of.of, of.built
	if b == nil || r.servers[of.Name] != s {
		return
	}
	s.good, s.served, s.applied, s.trouble = b.version, true, b.config, ""
	applied := map[object.Ref]*tool{}
	for _, p := range b.tools {
		if p.use != nil {
			applied[p.use.identity()] = p.tool
		}
	}
	for _, u := range s.uses { // of a later Resolve, perhaps
		u.good = applied[u.identity()]
	}
	for _, m := range b.members {
		if m.entry != nil {
			m.entry.good = m.version
		}
	}
}

// tries is how often a configuration is changed that a proxy did not take.
const tries = 2

// Refused notes that a proxy did not take the configuration of a server, and returns what to try in its place;
// nil: nothing, and what was served goes on; one without Config: nothing is served any more. What the paths of diag.Problems lead to gets its last good version.
func (r *Resolver) Refused(of *Server, err error) *Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, b := of.of, of.built
	if b == nil || r.servers[of.Name] != s || s.made != of {
		return nil
	}
	var problems diag.Problems
	if !errors.As(err, &problems) {
		var one diag.Problem
		if !errors.As(err, &one) {
			s.trouble = err.Error()
			return r.giveUp(s, b)
		}
		problems = diag.Problems{one}
	}
	r.blame(s, b, problems)
	if b.tries == tries {
		s.trouble = problems.Error()
		return r.giveUp(s, b)
	}
	next := r.build(s)
	if next.built == nil {
		return next
	}
	if reflect.DeepEqual(next.built.config, b.config) {
		s.trouble = problems.Error()
		return r.giveUp(s, b)
	}
	next.built.tries = b.tries + 1
	return next
}

// giveUp leaves a server as it is served, unless what it says now about who may come in is something else: then
// nothing is served, for the older version is more open, perhaps.
func (r *Resolver) giveUp(s *server, b *build) *Server {
	who := func(v *serverVersion) config.IncomingAuth {
		a := v.base.IncomingAuth
		a.OIDC.Secret, a.OIDC.CAText = "", "" // which change by themselves
		return a
	}
	if s.good == nil || reflect.DeepEqual(who(s.good), who(b.version)) {
		return nil
	}
	s.good, s.now = nil, nil
	return r.build(s)
}

// blame finds the objects that problems of a configuration are about.
func (r *Resolver) blame(s *server, b *build, problems diag.Problems) {
	own := finding{reason: object.ReasonInvalid}
	for _, p := range problems {
		tool, member := pathOf(p.Path, b.tools), pathOf(p.Path, b.members)
		switch {
		case tool != "":
			r.blameTool(s, b, b.tools[tool], tool, p)
		case member != "" && b.members[member].entry != nil:
			e := b.members[member].entry
			p.Path = "spec" + p.Path[len(member):]
			e.refused, e.why = b.members[member].version, finding{object.ReasonInvalid, diag.Problems{p}}
			if e.now == e.refused {
				e.finding, e.now = e.why, nil
			}
		default:
			if within(p.Path, "incomingAuth") {
				own.reason = object.ReasonAuthNotCarried
				p.Path = "spec." + policyPath(p.Path, s.object.Spec.IncomingAuth)
			} else if p.Path != "" {
				p.Path = "spec.config." + p.Path
			}
			own.problems = append(own.problems, p)
		}
	}
	if !own.found() {
		return
	}
	s.refused = &refusedServer{b.version, own}
	if s.now == b.version {
		s.finding, s.now = own, nil
		s.guard(own, b.version.generation)
	}
}

// policyPath is where an object has what the file has at a path.
func policyPath(path string, a *object.IncomingAuth) string {
	rest, ok := strings.CutPrefix(path, "incomingAuth.authz.policies")
	switch {
	case !ok || a == nil || a.AuthzConfig == nil:
		return path
	case a.AuthzConfig.ConfigMap != nil:
		return "incomingAuth.authzConfig.configMap"
	}
	return "incomingAuth.authzConfig.inline.policies" + rest
}

// blameTool notes a problem of one tool.
func (r *Resolver) blameTool(s *server, b *build, p part, path string, problem diag.Problem) {
	problem.Path = problem.Path[len(path):]
	problems := diag.Problems{problem}
	r.checks.refuse(p.tool, scopeOf(b.version.base), problems)
	if p.use == nil {
		s.scripts = append(s.scripts, failure{p.tool.label(), below(p.tool.path, problems)})
		if s.now == b.version {
			s.now = nil
		}
		return
	}
	if p.use.now == p.tool {
		p.use.now, p.use.failed = nil, below(p.tool.path, problems)
	} else if p.use.good == p.tool {
		p.use.good = nil
	}
}

// pathOf is the key of parts that a path leads into; "" for none.
func pathOf[T any](path string, parts map[string]T) string {
	end := strings.IndexByte(path, ']')
	if end < 0 {
		return ""
	}
	if _, ok := parts[path[:end+1]]; ok {
		return path[:end+1]
	}
	return ""
}

// within reports whether a path is that of a field, or leads into it.
func within(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// below puts what stands in a tool to where the tool is in its object.
func below(path string, problems diag.Problems) diag.Problems {
	out := slices.Clone(problems)
	for i := range out {
		p := &out[i]
		if p.Line > 0 {
			p.Path = "" // it stands in a script, whose place says more
			continue
		}
		rest := p.Path
		for _, list := range []string{"scriptedTools[0]", "compositeTools[0]"} {
			rest = strings.TrimPrefix(rest, list)
		}
		p.Path = path
		if rest != "" && rest[0] != '.' && rest[0] != '[' {
			p.Path += "."
		}
		p.Path += rest
	}
	return out
}
