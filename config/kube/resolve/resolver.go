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

// A Resolver makes configurations of the objects of a namespace. Its methods may be called from several goroutines; mu
// serializes them.
//
// Of each server, entry and referenced tool it keeps two versions: now, the newest one, or nil if it has a problem or was
// refused, and good, the one that was applied last.
//
//   - Resolve sets now: entriesOf of entries, prepare of servers, find of tools. build then makes the configuration of now,
//     else good, of each.
//   - Applied makes the versions in a build good.
//   - Refused clears now of the objects that the problems' paths lead to (blame), remembers the refused versions, so that
//     Resolve does not try them again while they are unchanged, and builds again, at most tries times. A problem whose path
//     leads to no other object is the server's own. An error that is not a problem, one refusal too many, or a
//     replacement that equals what was refused ends in giveUp: what is served stays in force.
//
// An exception for access: where an object's incomingAuth has changed and the new one cannot be applied, good is
// cleared too (guard, giveUp), since it may allow more. Nothing is served then.
//
// A caller may hold a Server that is older than the last Resolve: Applied then updates what still exists, Refused ignores it.
type Resolver struct {
	options Options

	mu      sync.Mutex
	checks  *checks            // guarded by mu
	state   *State             // guarded by mu
	servers map[string]*server // guarded by mu
	entries map[string]*entry  // guarded by mu
}

// New makes a Resolver without objects.
func New(o Options) *Resolver {
	return &Resolver{options: o, checks: newChecks(o.Check), state: &State{}, servers: map[string]*server{}, entries: map[string]*entry{}}
}

// Resolve makes a Server of each VirtualMCPServer in state, by name. Servers that are not in the result do not exist.
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

// A build is a configuration with the versions of the objects that it was made of.
type build struct {
	version *serverVersion
	tools   map[string]part   // by path in the configuration, such as scriptedTools[0]
	members map[string]member // by path in the configuration, such as backends[0]
	config  *config.Config    // a copy, since Apply may change the original
	tries   int               // how often it was changed after a refusal
}

// A part is a tool of a configuration.
type part struct {
	use  *use // nil for a tool in the server's own config
	tool *tool
}

// build makes the configuration of a server of now, else good, of each of its objects.
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

// Applied records that the configuration of a server is served: the versions that it was made of are good.
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
	for _, u := range s.uses { // possibly of a later Resolve
		u.good = applied[u.identity()]
	}
	for _, m := range b.members {
		if m.entry != nil {
			m.entry.good = m.version
		}
	}
}

// tries bounds how often a refused configuration is changed and tried again.
const tries = 2

// Refused records that Apply refused the configuration of a server, and returns the replacement to apply: nil if the
// previous configuration stays in force, a Server without Config if nothing is to be served. If err is a diag.Problem
// or diag.Problems, the objects that their paths lead to are replaced by their last good versions.
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
			newest := s.now
			nothing := r.giveUp(s, b)
			s.now = newest // the configuration has no problem: it can be tried again
			return nothing
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

// giveUp leaves the served configuration of a server in force and returns nil, unless incomingAuth has changed since:
// then it returns a Server without Config, since the older version may allow more.
func (r *Resolver) giveUp(s *server, b *build) *Server {
	who := func(v *serverVersion) config.IncomingAuth {
		a := v.base.IncomingAuth
		a.OIDC.Secret, a.OIDC.CAText = "", "" // these are rotated
		return a
	}
	if s.good == nil || reflect.DeepEqual(who(s.good), who(b.version)) {
		return nil
	}
	s.good, s.now = nil, nil
	return r.build(s)
}

// blame records problems of a configuration at the objects that their paths lead to; the others are the server's.
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

// policyPath converts a path in incomingAuth of a configuration to the path in the spec of a server.
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

// blameTool records a problem of one tool.
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

// pathOf returns the key of parts that is a prefix of path, such as backends[0]; "" for none.
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

// within reports whether path is field or a path inside it.
func within(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// below converts the paths of a tool's problems to paths in its object, in which the tool is at path.
func below(path string, problems diag.Problems) diag.Problems {
	out := slices.Clone(problems)
	for i := range out {
		p := &out[i]
		if p.Line > 0 {
			p.Path = "" // the position in the script is more exact
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
