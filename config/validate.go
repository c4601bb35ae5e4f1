package config

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"

	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

var (
	backendName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}$`)
	toolName    = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
)

// validator checks a configuration. The methods for each part are in the file of its struct.
type validator struct{ Validator }

func (v *validator) config(c *Config) {
	c.Listen = v.Address("listen", c.Listen)
	v.edges(c)
	v.access(c)
	v.audit(&c.Audit)
	v.pins(&c.Pins)
	c.Telemetry.Check("telemetry", &v.Validator)
	v.check(&c.Check)
	v.recording(&c.Recording)
	v.rateLimiting(&c.RateLimiting)
	c.SessionStorage.Check("sessionStorage", &v.Validator)
	postgres := c.SessionStorage.Provider == StoragePostgres || v.Broken("sessionStorage")
	c.Cluster.Check("cluster", c.Listen, postgres, &v.Validator)
	c.Runs.Check("runs", &v.Validator)
	if backend, _, ok := c.Runs.Notify.Target(); ok {
		v.workload(c, "runs.notify.tool", backend)
	}
	v.backends(c)
	v.outgoing(c)
	v.aggregation(c)
	v.profiles(c)
	v.tools(c)
	v.Folders("scripts", c.Scripts)
	v.libraries(c.Libraries)
	v.workloads(c, "operational.timeouts.perWorkload", keys(c.Operational.Timeouts.PerWorkload))
}

func (v *validator) backends(c *Config) {
	names := map[string]int{}
	for i := range c.Backends {
		b, at := &c.Backends[i], document.IndexPath("backends", i)
		if !backendName.MatchString(b.Name) {
			v.Report(at+".name", "want up to 63 letters, digits, - and _, beginning with a letter or digit; have %q", b.Name)
		} else if first, ok := names[b.Name]; ok {
			v.Report(at+".name", "%q is the name of backends[%d] already", b.Name, first)
		} else {
			names[b.Name] = i
		}
		if b.Prefix != nil && *b.Prefix != "" && !toolName.MatchString(*b.Prefix) {
			v.Report(at+".prefix", "want letters, digits, - and _, or nothing; have %q", *b.Prefix)
		}
		v.backend(b, at)
		v.hintStateful(c, b, at)
		v.hintAnonymous(c, b, at)
	}
}

func (v *validator) backend(b *Backend, at string) {
	hasURL, hasCommand := v.Set(at+".url"), v.Set(at+".command")
	lenient := v.Lenient
	v.Lenient = lenient || b.Disabled
	defer func() { v.Lenient = lenient }()
	switch {
	case hasURL && hasCommand:
		v.Report(at+".command", "want either url or command, have both")
	case hasCommand:
		v.child(b, at)
	case hasURL:
		v.remote(b, at)
	default:
		v.Report(at, "want a url or a command")
	}
}

// child checks a backend that is a child process.
func (v *validator) child(b *Backend, at string) {
	b.Command, b.Cwd = v.ExpandPlain(at+".command", b.Command), v.ExpandPlain(at+".cwd", b.Cwd)
	for i := range b.Args {
		b.Args[i] = v.ExpandPlain(document.IndexPath(at+".args", i), b.Args[i])
	}
	if b.Command == "" {
		v.Report(at+".command", "want the program to start")
	}
	if strings.ContainsRune(b.Command, '/') {
		b.Command = v.Absolute(b.Command)
	}
	if b.Transport != "" && b.Transport != "stdio" {
		v.Report(at+".transport", "a command speaks stdio, not %s", b.Transport)
	}
	v.only(at, "url", "headers", "type", "idempotencyHeader")
	if b.TLS != (BackendTLS{}) {
		v.Report(at+".tls", "belongs to a backend with a url")
	}
	if b.Cwd != "" {
		b.Cwd = v.Folder(at+".cwd", b.Cwd)
	}
	for _, name := range keys(b.Env) {
		path := document.KeyPath(at+".env", name)
		if !isName(name) {
			v.Report(path, "want a name of letters, digits and _")
		}
		literal := b.Env[name]
		b.Env[name] = v.Expand(path, literal)
		if literal == b.Env[name] && secret.Named(name) {
			v.TooShort(path, literal)
		}
		if strings.ContainsRune(b.Env[name], 0) {
			v.Report(path, "the value holds a NUL character")
		}
	}
}

// remote checks a backend behind a URL.
func (v *validator) remote(b *Backend, at string) {
	if b.Transport == "stdio" {
		v.Report(at+".transport", "stdio needs a command; a url wants streamable-http or sse")
	}
	v.only(at, "command", "args", "env", "cwd", "passPrincipal")
	b.URL = v.ExpandPlain(at+".url", b.URL)
	v.URL(at+".url", b.URL)
	v.backendTLS(b, at+".tls")
	if h := b.IdempotencyHeader; v.Set(at+".idempotencyHeader") && (!headerName.MatchString(h) || slices.Contains(ownHeaders, strings.ToLower(h))) {
		v.Report(at+".idempotencyHeader", "want a header of its own, such as Idempotency-Key; have %q", h)
	}
	seen := map[string]string{}
	for _, name := range keys(b.Headers) {
		path := document.KeyPath(at+".headers", name)
		lower := strings.ToLower(name)
		switch first, twice := seen[lower]; {
		case !headerName.MatchString(name):
			v.Report(path, "not a header's name")
		case twice:
			v.Report(path, "the same header as %s", first)
		case slices.Contains(ownHeaders, lower):
			v.Report(path, "the protocol sets this header itself; remove it")
		}
		seen[lower] = name
		literal := b.Headers[name]
		b.Headers[name] = v.Expand(path, literal)
		if literal == b.Headers[name] && secret.Named(name) {
			v.TooShort(path, literal)
		}
		if strings.ContainsAny(b.Headers[name], "\r\n\x00") {
			v.Report(path, "the value holds a line break or NUL character")
		}
	}
}

// ownHeaders are set by the transport and cannot be configured.
var ownHeaders = []string{
	"accept", "connection", "content-length", "content-type", "host", "last-event-id", "mcp-method", "mcp-name",
	"mcp-protocol-version", "mcp-session-id", "transfer-encoding",
}

// only reports fields that belong to the other kind of backend.
func (v *validator) only(at, other string, fields ...string) {
	for _, f := range fields {
		if v.Set(at + "." + f) {
			v.Report(at+"."+f, "belongs to a backend with a %s", other)
		}
	}
}

func (v *validator) aggregation(c *Config) {
	a := &c.Aggregation
	const conf = "aggregation.conflictResolutionConfig"
	order := conf + ".priorityOrder"
	if a.ConflictResolution == "priority" && len(a.ConflictResolutionConfig.PriorityOrder) == 0 {
		v.Report(order, "the priority strategy needs the backends, highest priority first")
	}
	if a.ConflictResolution != "priority" && v.Set(order) {
		v.Report(order, "only for conflictResolution: priority")
	}
	v.knownOnce(c, order, a.ConflictResolutionConfig.PriorityOrder)
	if format := a.ConflictResolutionConfig.PrefixFormat; v.Set(conf + ".prefixFormat") {
		rest := strings.Replace(format, "{workload}", "w", 1)
		if rest == format || !toolName.MatchString(rest) {
			v.Report(conf+".prefixFormat", "want {workload} once, with letters, digits, - and _ around it; have %q", format)
		}
	}
	rules(v, c, "aggregation.tools", a.Tools, func(w *WorkloadTools, at string) (string, []string) {
		renames(v, at, w.Overrides, func(o ToolOverride) string { return o.Name })
		return w.Workload, w.Filter
	})
	rules(v, c, "aggregation.prompts", a.Prompts, func(w *WorkloadPrompts, at string) (string, []string) {
		renames(v, at, w.Overrides, func(o PromptOverride) string { return o.Name })
		return w.Workload, w.Filter
	})
	rules(v, c, "aggregation.resources", a.Resources, func(w *WorkloadResources, _ string) (string, []string) {
		return w.Workload, w.Filter
	})
}

func (v *validator) profiles(c *Config) {
	first := map[string]int{}
	for i, p := range c.Profiles {
		at := document.IndexPath("profiles", i)
		if n, twice := first[p.Name]; twice {
			v.Report(at+".name", "%q is the name of profiles[%d] already", p.Name, n)
		} else if first[p.Name] = i; !backendName.MatchString(p.Name) {
			v.Report(at+".name", "it is the last element of the path /mcp/NAME: want up to 63 letters, digits, - and _, beginning with a letter or digit; have %q", p.Name)
		}
		if v.Set(at+".workloads") && len(p.Workloads) == 0 {
			v.Report(at+".workloads", "names no backend; want one, or leave it out for all")
		}
		v.knownOnce(c, at+".workloads", p.Workloads)
		if v.Set(at+".tools") && len(p.Tools) == 0 {
			v.Report(at+".tools", "is empty; want a glob, or leave it out for all")
		}
		v.globs(at+".tools", p.Tools)
		if p.MaxTools < 0 || p.MaxTools == 0 && v.Set(at+".maxTools") {
			v.Report(at+".maxTools", "want a positive number, have %d", p.MaxTools)
		}
	}
}

// globs checks a list of globs, each of them perhaps with a ! in front.
func (v *validator) globs(at string, all []string) {
	for i, glob := range all {
		if !isFilter(glob) {
			v.Report(document.IndexPath(at, i), "not a glob; want one such as read_*, get_[a-z]* or, for all but these, !delete_*")
		}
	}
}

// isFilter reports whether a string is a valid glob for names, perhaps with a ! in front.
func isFilter(glob string) bool {
	glob = strings.TrimPrefix(glob, "!")
	_, err := path.Match(glob, "")
	return err == nil && glob != ""
}

// rules checks a list of rules per backend; of returns the backend and the filter of a rule.
func rules[W any](v *validator, c *Config, list string, all []W, of func(w *W, at string) (workload string, filter []string)) {
	first := map[string]int{}
	for i := range all {
		at := document.IndexPath(list, i)
		workload, filter := of(&all[i], at)
		v.workload(c, at+".workload", workload)
		if n, twice := first[workload]; twice {
			v.Report(at+".workload", "%q has rules in %s already", workload, document.IndexPath(list, n))
		} else {
			first[workload] = i
		}
		v.globs(at+".filter", filter)
	}
}

// renames checks the new names of one backend's entries.
func renames[O any](v *validator, at string, overrides map[string]O, nameOf func(O) string) {
	owner := map[string]string{}
	for _, own := range keys(overrides) {
		name, opath := nameOf(overrides[own]), document.KeyPath(at+".overrides", own)
		if !v.Set(opath + ".name") {
			continue
		}
		if !toolName.MatchString(name) {
			v.Report(opath+".name", "want 1 to 64 letters, digits, - and _; have %q", name)
		}
		if before, twice := owner[name]; twice {
			v.Report(opath+".name", "%q is the new name of %s already", name, before)
		}
		owner[name] = own
	}
}

// knownOnce checks a list of backends.
func (v *validator) knownOnce(c *Config, at string, names []string) {
	for i, name := range names {
		v.workload(c, document.IndexPath(at, i), name)
		if first := slices.Index(names, name); first < i {
			v.Report(document.IndexPath(at, i), "%q is listed twice", name)
		}
	}
}

func (v *validator) workloads(c *Config, at string, names []string) {
	for _, name := range names {
		v.workload(c, document.KeyPath(at, name), name)
	}
}

// workload checks a reference to a backend.
func (v *validator) workload(c *Config, at, name string) {
	if v.InObject() {
		return // backends are other objects, which may be created later
	}
	var known []string
	for _, b := range c.Backends {
		if b.Name != "" && !slices.Contains(known, b.Name) {
			known = append(known, b.Name)
		}
	}
	if slices.Contains(known, name) || v.Broken("backends") {
		return
	}
	hint := display.Hint(name, known)
	if hint == "" && len(known) > 0 {
		hint = "; known: " + strings.Join(known, ", ")
	}
	v.Report(at, "no backend is named %q%s", name, hint)
}

// keys returns the keys of m, sorted, so that messages have a fixed order.
func keys[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
