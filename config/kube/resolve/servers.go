package resolve

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// A serverVersion is one version of a server: its spec, with the contents of its references but entries and tools.
type serverVersion struct {
	generation int64
	base       *config.Config // complete, without backends and tools
	own        []*tool        // the tools in its own config
	group      string
	backends   []member // of ToolHive, in place of the group
	composites map[string]*object.VirtualMCPCompositeToolDefinition
	ignored    []string
}

// A server is the state of one VirtualMCPServer.
type server struct {
	object  *object.VirtualMCPServer
	finding finding // why the spec is not accepted
	soft    finding // missing tools that the spec refers to and that are left out
	names   finding // name conflicts, and names of unknown backends
	scripts []failure
	tools   int // number of tools
	// now is the newest version that can be tried, good the one that was served last; nil: there is none.
	now, good *serverVersion
	tried     *serverVersion // the newest one whose references are good
	served    bool           // good is served
	refused   *refusedServer
	uses      []*use
	members   []member
	made      *Server        // the last result of build
	applied   *config.Config // the last applied configuration
	trouble   string         // why the last Apply failed, if not for a problem of one object
}

// refusedServer is a version that Apply refused, with its problems.
type refusedServer struct {
	version *serverVersion
	why     finding
}

// A use is a tool that a server refers to.
type use struct {
	kind    object.Kind
	name    string // of the object
	meta    *object.Meta
	finding finding
	// conflict names the object that has the tool's name already.
	conflict finding
	failed   diag.Problems // of its script
	// now is the newest version that can be tried, good the one that was served last; nil: there is none.
	now, good *tool
	taken     *tool // the version in the last configuration
}

// identity is the object of a use without its generation.
func (u *use) identity() object.Ref { return object.Ref{Kind: u.kind, Name: u.name, UID: u.meta.UID} }

// A failure is a tool whose script does not compile.
type failure struct {
	label    string
	problems diag.Problems
}

// serves returns the version of the server to serve; nil: none.
func (s *server) serves() *serverVersion {
	if s.now != nil {
		return s.now
	}
	return s.good
}

// prepare sets the newest version of a server, or why it cannot be tried.
func (r *Resolver) prepare(l lookup, s *server) {
	s.finding, s.soft, s.scripts, s.now, s.tried, s.trouble = finding{}, finding{}, nil, nil, nil, ""
	if len(s.object.Problems) > 0 {
		s.finding = finding{object.ReasonInvalid, s.object.Problems}
		return
	}
	v, f := l.server(s.object)
	auth := r.allowed(&s.object.Spec, v)
	f.join(auth)
	if f.found() {
		s.finding = f
		s.guard(f, s.object.Generation)
		return
	}
	s.tried = v
	own := scopeOf(v.base)
	for _, t := range v.own {
		if problems := r.checks.of(t, own); len(problems) > 0 {
			s.scripts = append(s.scripts, failure{t.label(), below(t.path, problems)})
		}
	}
	switch {
	case len(s.scripts) > 0:
	case s.refused != nil && same(s.refused.version, v):
		s.finding = s.refused.why
	default:
		s.now = v
	}
}

// guard clears the good version if incomingAuth of the given generation cannot be applied: the older version may allow
// more. If good is of the same generation and only a reference is missing, it stays in force.
func (s *server) guard(f finding, generation int64) {
	about := slices.ContainsFunc(f.problems, func(p diag.Problem) bool { return within(p.Path, "spec.incomingAuth") })
	if f.reason == object.ReasonAuthNotCarried || about && s.good != nil && s.good.generation != generation {
		s.good = nil
	}
}

// same reports whether two versions of a server have the same base configuration and the same tools of their own.
func same(a, b *serverVersion) bool {
	return reflect.DeepEqual(a.base, b.base) && reflect.DeepEqual(a.own, b.own)
}

// allowed refuses anonymous servers unless AllowAnonymous is set.
func (r *Resolver) allowed(s *object.ServerSpec, v *serverVersion) (f finding) {
	if !r.options.AllowAnonymous && v.base.IncomingAuth.Type == object.Anonymous {
		f.add(object.ReasonNotAllowed, "spec.incomingAuth.type", "anonymous lets everybody in who reaches the endpoint, which other machines do: it takes vmcp serve --insecure-listen")
	}
	return f
}

// server makes a version of the object of a server.
func (l lookup) server(o *object.VirtualMCPServer) (*serverVersion, finding) {
	spec, of, f := o.Spec, o.Ref(), finding{}
	v := &serverVersion{generation: o.Generation, base: &config.Config{}}
	if from := spec.From; from != nil {
		t := l.state.ToolHive[from.ToolHive]
		switch {
		case t == nil && !l.offline:
			f.add(object.ReasonRefNotFound, "spec.from.toolhive", "there is no VirtualMCPServer %s of %s", from.ToolHive, object.ToolHiveGroup)
			return v, f
		case t == nil:
			t = &Translation{Spec: object.ServerSpec{IncomingAuth: &object.IncomingAuth{Type: object.Anonymous}}}
		}
		own := spec.IncomingAuth
		spec = t.Spec
		if own != nil {
			spec.IncomingAuth = own
		}
		v.translated(l, t, own != nil, &f)
	} else {
		v.group = spec.GroupRef.Name
	}
	v.configured(l, &spec, of, &f)
	return v, f
}

// translated sets what comes from a server of ToolHive.
func (v *serverVersion) translated(l lookup, t *Translation, ownAuth bool, f *finding) {
	v.ignored, v.composites = t.Ignored, t.Composites
	if v.composites == nil {
		v.composites = map[string]*object.VirtualMCPCompositeToolDefinition{} // ours are not used
	}
	if p := t.Problem; p.Message != "" && !(ownAuth && p.Reason == object.ReasonAuthNotCarried) {
		f.add(p.Reason, "spec.from.toolhive", "%s", p.Message)
	}
	for _, b := range t.Backends {
		if b.Problem.Message != "" || b.Spec.RemoteURL == "" {
			continue
		}
		made, wrong := l.backend(b.Name, &b.Spec)
		if wrong.found() {
			v.ignored = append(v.ignored, fmt.Sprintf("%s: %s", b.Object, wrong.problems[0].Message))
			continue
		}
		v.backends = append(v.backends, member{version: &backend{config: made}, object: b.Object})
	}
}

// configured sets base and own from the config of a spec, with the texts and secrets that it refers to.
func (v *serverVersion) configured(l lookup, spec *object.ServerSpec, of object.Ref, f *finding) {
	c := spec.Config // a shallow copy: what it points to must not be changed
	c.Name = cmp.Or(c.Name, of.Name)
	var secrets []string
	c.IncomingAuth, secrets = l.incoming(spec.IncomingAuth, f)
	c.OutgoingAuth, secrets = l.outgoing(c.OutgoingAuth, secrets, f)
	unknown := v.libraries(l, &c, f)
	for i, t := range c.ScriptedTools {
		made, wrong := l.scripted(t, of, config.IndexPath("spec.config.scriptedTools", i))
		made.unknown = made.unknown || unknown
		f.join(wrong)
		v.own = append(v.own, made)
	}
	for i := range c.CompositeTools {
		v.own = append(v.own, &tool{object: of, generation: of.Generation, path: config.IndexPath("spec.config.compositeTools", i), composite: &c.CompositeTools[i], unknown: unknown})
	}
	c.ScriptedTools, c.CompositeTools = nil, nil
	c.Hide(secrets...)
	c.Complete()
	v.base = &c
}

// libraries fills libraries from ConfigMaps. unknown reports that one is missing and assumed to be in the cluster.
func (v *serverVersion) libraries(l lookup, c *config.Config, f *finding) (unknown bool) {
	c.Libraries = slices.Clone(c.Libraries)
	for i := range c.Libraries {
		lib, path := &c.Libraries[i], config.IndexPath("libraries", i)
		origin := diag.Origin{Pos: diag.Pos{File: lib.Name, Line: 1, Column: 1}, Exact: true}
		if from := lib.SourceFrom; from != nil {
			ref := from.ConfigMapKeyRef
			text, _, missing := l.text(ref, "spec.config."+path+".sourceFrom.configMapKeyRef", f)
			lib.Source, lib.SourceFrom = text, nil
			unknown = unknown || missing
			origin.File = ref.Name + "/" + ref.Key
		}
		c.SetOrigin(path+".source", origin)
	}
	return unknown
}

// outgoing fills the strategies from Secrets. It returns secrets with their values appended.
func (l lookup) outgoing(o config.OutgoingAuth, secrets []string, f *finding) (config.OutgoingAuth, []string) {
	const at = "spec.config.outgoingAuth"
	fill := func(path string, s *config.OutgoingStrategy) {
		for _, r := range secretsOf(path, s) {
			*r.into = l.secret(*r.ref, r.path, f)
			secrets = append(secrets, *r.into)
		}
	}
	fill(at+".default", &o.Default)
	o.Backends = maps.Clone(o.Backends)
	for _, name := range slices.Sorted(maps.Keys(o.Backends)) {
		s := o.Backends[name]
		fill(config.KeyPath(at+".backends", name), &s)
		o.Backends[name] = s
	}
	return o, secrets
}
