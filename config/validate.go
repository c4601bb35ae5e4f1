package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/config/internal/envfile"
	"github.com/vmcp-dev/vmcp/config/replicas"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/internal/spell"
)

var (
	backendName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}$`)
	toolName    = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
)

// validator checks what a type cannot say: how fields go together and what exists.
// It makes relative paths absolute and expands variables on the way.
type validator struct {
	*document.Document
	env func(string) (string, bool)
	dir string
	// below is set where a part of an object is checked, and not a file: what its paths begin with.
	below string

	lenient  bool              // variables that are missing are no problem
	secrets  []string          // values of variables that were expanded
	named    map[string]string // their names by them
	warnings diag.Problems
}

// report notes a problem of the value at path.
func (v *validator) report(path, format string, args ...any) { v.Report(v.below+path, format, args...) }

// broken reports whether the value at path has a problem.
func (v *validator) broken(path string) bool { return v.Broken(v.below + path) }

// inObject reports whether what is checked is a part of an object of Kubernetes.
func (v *validator) inObject() bool { return v.below != "" }

// warn notes what may not be meant.
func (v *validator) warn(path, format string, args ...any) {
	v.warnings = append(v.warnings, diag.Problem{Pos: v.Place(v.below + path), Code: code, Path: v.below + path, Message: fmt.Sprintf(format, args...), Severity: diag.Warning})
}

// set reports whether the file says anything at path.
func (v *validator) set(path string) bool { return v.Has(v.below + path) }

func (v *validator) config(c *Config) {
	v.listen("listen", c.Listen)
	v.edges(c)
	v.access(c)
	v.audit(&c.Audit)
	v.pins(&c.Pins)
	v.telemetry(c)
	v.check(&c.Check)
	v.recording(&c.Recording)
	v.rateLimiting(&c.RateLimiting)
	v.storage(&c.SessionStorage)
	c.Cluster.Check("cluster", replicas.Checker{Report: v.report, Set: v.set, Expand: v.expandPublic, File: v.existing, Listen: v.listen,
		Endpoint: c.Listen, Postgres: c.SessionStorage.Provider == StoragePostgres || v.broken("sessionStorage")})
	v.runs(c)
	v.backends(c)
	v.outgoing(c)
	v.aggregation(c)
	v.profiles(c)
	v.tools(c)
	v.folders("scripts", c.Scripts)
	v.libraries(c.Libraries)
	v.workloads(c, "operational.timeouts.perWorkload", keys(c.Operational.Timeouts.PerWorkload))
}

func (v *validator) listen(path, addr string) {
	if addr == "" {
		return
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		v.report(path, "want host:port such as 127.0.0.1:4483, have %q", addr)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		v.report(path, "want a port from 0 to 65535, have %q", port)
	}
}

func (v *validator) backends(c *Config) {
	names := map[string]int{}
	for i := range c.Backends {
		b, at := &c.Backends[i], document.IndexPath("backends", i)
		if !backendName.MatchString(b.Name) {
			v.report(at+".name", "want up to 63 letters, digits, - and _, beginning with a letter or digit; have %q", b.Name)
		} else if first, ok := names[b.Name]; ok {
			v.report(at+".name", "%q is the name of backends[%d] already", b.Name, first)
		} else {
			names[b.Name] = i
		}
		if b.Prefix != nil && *b.Prefix != "" && !toolName.MatchString(*b.Prefix) {
			v.report(at+".prefix", "want letters, digits, - and _, or nothing; have %q", *b.Prefix)
		}
		v.backend(b, at)
	}
}

func (v *validator) backend(b *Backend, at string) {
	hasURL, hasCommand := v.set(at+".url"), v.set(at+".command")
	lenient := v.lenient
	v.lenient = lenient || b.Disabled
	defer func() { v.lenient = lenient }()
	switch {
	case hasURL && hasCommand:
		v.report(at+".command", "a backend has a url or a command, this one has both")
	case hasCommand:
		v.child(b, at)
	case hasURL:
		v.remote(b, at)
	default:
		v.report(at, "want a url or a command")
	}
}

// child checks a backend that is a child process.
func (v *validator) child(b *Backend, at string) {
	b.Command, b.Cwd = v.expandPlain(at+".command", b.Command), v.expandPlain(at+".cwd", b.Cwd)
	for i := range b.Args {
		b.Args[i] = v.expandPlain(document.IndexPath(at+".args", i), b.Args[i])
	}
	if b.Command == "" {
		v.report(at+".command", "want the program to start")
	}
	if strings.ContainsRune(b.Command, '/') {
		b.Command = v.absolute(b.Command)
	}
	if b.Transport != "" && b.Transport != "stdio" {
		v.report(at+".transport", "a command speaks stdio, not %s", b.Transport)
	}
	v.only(at, "url", "headers", "type", "idempotencyHeader")
	if b.TLS != (BackendTLS{}) {
		v.report(at+".tls", "belongs to a backend with a url")
	}
	v.hintStateful(b, at)
	if b.Cwd != "" {
		b.Cwd = v.folder(at+".cwd", b.Cwd)
	}
	for _, name := range keys(b.Env) {
		path := document.KeyPath(at+".env", name)
		if !envfile.IsName(name) {
			v.report(path, "want a name of letters, digits and _")
		}
		literal := b.Env[name]
		b.Env[name] = v.expand(path, literal)
		if literal == b.Env[name] && secret.Named(name) {
			v.tooShort(path, literal)
		}
		if strings.ContainsRune(b.Env[name], 0) {
			v.report(path, "the value holds a NUL character")
		}
	}
}

// remote checks a backend behind a URL.
func (v *validator) remote(b *Backend, at string) {
	if b.Transport == "stdio" {
		v.report(at+".transport", "stdio needs a command; a url wants streamable-http or sse")
	}
	v.only(at, "command", "args", "env", "cwd", "passPrincipal")
	b.URL = v.expandPlain(at+".url", b.URL)
	v.url(at+".url", b.URL)
	v.backendTLS(b, at+".tls")
	if h := b.IdempotencyHeader; v.set(at+".idempotencyHeader") && (!headerName.MatchString(h) || slices.Contains(ownHeaders, strings.ToLower(h))) {
		v.report(at+".idempotencyHeader", "want a header of its own, such as Idempotency-Key; have %q", h)
	}
	seen := map[string]string{}
	for _, name := range keys(b.Headers) {
		path := document.KeyPath(at+".headers", name)
		lower := strings.ToLower(name)
		switch first, twice := seen[lower]; {
		case !headerName.MatchString(name):
			v.report(path, "not a header's name")
		case twice:
			v.report(path, "the same header as %s", first)
		case slices.Contains(ownHeaders, lower):
			v.report(path, "the protocol sets this header itself; remove it")
		}
		seen[lower] = name
		literal := b.Headers[name]
		b.Headers[name] = v.expand(path, literal)
		if literal == b.Headers[name] && secret.Named(name) {
			v.tooShort(path, literal)
		}
		if strings.ContainsAny(b.Headers[name], "\r\n\x00") {
			v.report(path, "the value holds a line break or NUL character")
		}
	}
}

// ownHeaders are set by the transport and cannot be configured.
var ownHeaders = []string{
	"accept", "connection", "content-length", "content-type", "host", "last-event-id", "mcp-method", "mcp-name",
	"mcp-protocol-version", "mcp-session-id", "transfer-encoding",
}

// only refuses fields that belong to the other kind of backend.
func (v *validator) only(at, other string, fields ...string) {
	for _, f := range fields {
		if v.set(at + "." + f) {
			v.report(at+"."+f, "belongs to a backend with a %s", other)
		}
	}
}

// url checks a URL without showing it: it may hold a token.
func (v *validator) url(path, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		v.report(path, "not a URL; want one such as https://mcp.example.com/mcp")
	case u.Scheme != "http" && u.Scheme != "https":
		v.report(path, "want a URL that begins with http:// or https://")
	case u.Hostname() == "":
		v.report(path, "the URL names no host")
	case u.User != nil:
		v.report(path, "holds a password; put credentials into headers")
	case u.Fragment != "":
		v.report(path, "a fragment (#...) is never sent; remove it")
	}
}

func (v *validator) aggregation(c *Config) {
	a := &c.Aggregation
	const conf = "aggregation.conflictResolutionConfig"
	order := conf + ".priorityOrder"
	if a.ConflictResolution == "priority" && len(a.ConflictResolutionConfig.PriorityOrder) == 0 {
		v.report(order, "the priority strategy wants the backends in their order")
	}
	if a.ConflictResolution != "priority" && v.set(order) {
		v.report(order, "only for conflictResolution: priority")
	}
	v.knownOnce(c, order, a.ConflictResolutionConfig.PriorityOrder)
	if format := a.ConflictResolutionConfig.PrefixFormat; v.set(conf + ".prefixFormat") {
		rest := strings.Replace(format, "{workload}", "w", 1)
		if rest == format || !toolName.MatchString(rest) {
			v.report(conf+".prefixFormat", "want {workload} once, with letters, digits, - and _ around it; have %q", format)
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
			v.report(at+".name", "%q is the name of profiles[%d] already", p.Name, n)
		} else if first[p.Name] = i; !backendName.MatchString(p.Name) {
			v.report(at+".name", "it is the last part of a path, /mcp/NAME: want up to 63 letters, digits, - and _, beginning with a letter or digit; have %q", p.Name)
		}
		if v.set(at+".workloads") && len(p.Workloads) == 0 {
			v.report(at+".workloads", "names no backend; want one, or leave it out for all")
		}
		v.knownOnce(c, at+".workloads", p.Workloads)
		if v.set(at+".tools") && len(p.Tools) == 0 {
			v.report(at+".tools", "is empty; want a glob, or leave it out for all")
		}
		v.globs(at+".tools", p.Tools)
		if p.MaxTools < 0 || p.MaxTools == 0 && v.set(at+".maxTools") {
			v.report(at+".maxTools", "want a positive number, have %d", p.MaxTools)
		}
	}
}

// globs checks a list of globs, each of them perhaps with a ! in front.
func (v *validator) globs(at string, all []string) {
	for i, glob := range all {
		if !isFilter(glob) {
			v.report(document.IndexPath(at, i), "not a glob; want one such as read_*, get_[a-z]* or, for all but these, !delete_*")
		}
	}
}

// isFilter reports whether a text is a glob for names, or one with a ! in front.
func isFilter(glob string) bool {
	glob = strings.TrimPrefix(glob, "!")
	_, err := path.Match(glob, "")
	return err == nil && glob != ""
}

// rules checks a list of rules per backend; of gives a rule's backend and its filter.
func rules[W any](v *validator, c *Config, list string, all []W, of func(w *W, at string) (workload string, filter []string)) {
	first := map[string]int{}
	for i := range all {
		at := document.IndexPath(list, i)
		workload, filter := of(&all[i], at)
		v.workload(c, at+".workload", workload)
		if n, twice := first[workload]; twice {
			v.report(at+".workload", "%q has rules in %s already", workload, document.IndexPath(list, n))
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
		if !v.set(opath + ".name") {
			continue
		}
		if !toolName.MatchString(name) {
			v.report(opath+".name", "want 1 to 64 letters, digits, - and _; have %q", name)
		}
		if before, twice := owner[name]; twice {
			v.report(opath+".name", "%q is the new name of %s already", name, before)
		}
		owner[name] = own
	}
}

// knownOnce checks a list of backends.
func (v *validator) knownOnce(c *Config, at string, names []string) {
	for i, name := range names {
		v.workload(c, document.IndexPath(at, i), name)
		if first := slices.Index(names, name); first < i {
			v.report(document.IndexPath(at, i), "%q is listed twice", name)
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
	if v.inObject() {
		return // backends come and go
	}
	var known []string
	for _, b := range c.Backends {
		if b.Name != "" && !slices.Contains(known, b.Name) {
			known = append(known, b.Name)
		}
	}
	if slices.Contains(known, name) || v.broken("backends") {
		return
	}
	hint := spell.Hint(name, known)
	if hint == "" && len(known) > 0 {
		hint = "; known: " + strings.Join(known, ", ")
	}
	v.report(at, "no backend is named %q%s", name, hint)
}

// absolute is where a path of the file leads.
func (v *validator) absolute(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(v.dir, name)
}

// folder checks that a folder is there and returns its absolute path.
func (v *validator) folder(path, name string) string {
	abs := v.absolute(name)
	switch info, err := os.Stat(abs); {
	case err != nil:
		v.report(path, "no such folder %q", name)
	case !info.IsDir():
		v.report(path, "%q is a file, want a folder", name)
	}
	return abs
}

func (v *validator) folders(at string, names []string) {
	for i := range names {
		names[i] = v.folder(document.IndexPath(at, i), names[i])
	}
}

// keys returns the keys of m in order, so that messages have one.
func keys[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
