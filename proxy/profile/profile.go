// Package profile says what belongs to a profile: a part of what the endpoint offers, as the
// configuration names it by backends and by globs over the names that clients see.
package profile

import (
	"path"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
)

// A Profile is one of a configuration. It does not change. A nil *Profile is that of an endpoint
// without one: everything belongs to it.
type Profile struct {
	Name     string
	MaxTools int // that its clients cope with; 0: not known

	all       bool     // no workloads are listed
	workloads []string // the backends otherwise
	tools     []string // globs, of which the last that matches decides; nil: all
}

// New makes a profile of what a configuration says of it.
func New(p *config.Profile) *Profile {
	return &Profile{Name: p.Name, MaxTools: p.MaxTools, all: len(p.Workloads) == 0, workloads: p.Workloads, tools: p.Tools}
}

// Unknown is the profile of a name that none has: nothing belongs to it.
func Unknown(name string) *Profile { return &Profile{Name: name} }

// HasBackend reports whether prompts and resources of a backend belong to p, and tools where the
// globs want them.
func (p *Profile) HasBackend(name string) bool {
	return p == nil || p.all || slices.Contains(p.workloads, name)
}

// HasTool reports whether a tool of a backend belongs to p; name is the one that clients see.
func (p *Profile) HasTool(backend, name string) bool {
	return p == nil || p.HasBackend(backend) && p.names(name, len(p.tools) == 0 || p.tools[0][0] == '!', false)
}

// HasScript reports whether a scripted tool belongs to p. Where workloads are listed it has to be
// named by more than a *, which only says "all of these".
func (p *Profile) HasScript(name string) bool {
	if p == nil {
		return true
	}
	return p.names(name, p.all && (len(p.tools) == 0 || p.tools[0][0] == '!'), !p.all)
}

// names reports what the last glob that matches says of a name, or otherwise what holds without
// any. Narrow leaves out those that are no more than a *.
func (p *Profile) names(name string, otherwise, narrow bool) bool {
	for _, glob := range slices.Backward(p.tools) {
		glob, not := strings.CutPrefix(glob, "!")
		if narrow && !not && glob == "*" {
			continue
		}
		if ok, _ := path.Match(glob, name); ok {
			return !not
		}
	}
	return otherwise
}
