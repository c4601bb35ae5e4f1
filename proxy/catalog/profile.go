package catalog

import (
	"path"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
)

// This part of the package decides which entries belong to a profile: a part of the endpoint, configured by backends and by
// globs over exposed names.

// A Profile is one profile of a configuration. It is immutable. A nil *Profile includes everything.
type Profile struct {
	Name     string
	MaxTools int // recommended for its clients; 0: not configured

	all       bool     // no workloads are listed
	workloads []string // the included backends, unless all
	tools     []string // globs; the last that matches decides; nil: all tools
}

// New makes the profile of a configuration.
func New(p *config.Profile) *Profile {
	return &Profile{Name: p.Name, MaxTools: p.MaxTools, all: len(p.Workloads) == 0, workloads: p.Workloads, tools: p.Tools}
}

// Unknown is a profile that includes nothing, for a name without a profile.
func Unknown(name string) *Profile { return &Profile{Name: name} }

// HasBackend reports whether p includes the prompts and resources of a backend, and the tools that its globs select.
func (p *Profile) HasBackend(name string) bool {
	return p == nil || p.all || slices.Contains(p.workloads, name)
}

// HasTool reports whether p includes a tool of a backend; name is the exposed one.
func (p *Profile) HasTool(backend, name string) bool {
	return p == nil || p.HasBackend(backend) && p.names(name, len(p.tools) == 0 || p.tools[0][0] == '!', false)
}

// HasScript reports whether p includes a scripted tool. If workloads are listed, a glob other than * has to match it.
func (p *Profile) HasScript(name string) bool {
	if p == nil {
		return true
	}
	return p.names(name, p.all && (len(p.tools) == 0 || p.tools[0][0] == '!'), !p.all)
}

// names returns the decision of the last glob that matches a name, or otherwise if none does. narrow ignores globs that
// are only a *.
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
