package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// ScriptsOrigin stands for the backend in the origins of scripted and composite tools:
// scripts.NAME.
const ScriptsOrigin = "scripts"

// Authz is the authorization of principals. Without policies every authenticated client may do
// everything; with policies, what no policy permits is denied.
type Authz struct {
	// Type is how requests are authorized: by Cedar policies, or not at all. Default: cedar; none where authz is absent. Without policies cedar is refused.
	Type string `json:"type,omitempty" enum:"cedar,none"`
	// Policies are Cedar policies; one string may have several.
	Policies []string `json:"policies,omitempty"`
	// PolicyFiles are files of Cedar policies, relative to the configuration file; names may have the wildcards * and ?. They are reloaded when they change.
	PolicyFiles []string `json:"policyFiles,omitempty"`
	// EntitiesJSON are further entities that policies refer to, in Cedar's JSON format.
	EntitiesJSON string `json:"entitiesJson,omitempty"`
	// GroupClaimName is the claim with the groups. Default: the first one present of groups, roles and cognito:groups.
	GroupClaimName string `json:"groupClaimName,omitempty"`
	// RoleClaimName is a claim whose values are added to the groups.
	RoleClaimName string `json:"roleClaimName,omitempty"`
	// GroupEntityType is the entity type of groups in policies.
	GroupEntityType string `json:"groupEntityType,omitempty" default:"THVGroup"`
	// Allow are rules in a short form. Each becomes one policy.
	Allow []AllowRule `json:"allow,omitempty"`
	// Scripts is how the calls of a script are authorized. caller: as calls of its caller. owner: whoever may call the script may make its calls.
	Scripts string `json:"scripts,omitempty" enum:"caller,owner" default:"caller"`
	// Admins may see traces of runs, and use the admin port with their own credential.
	Admins Admins `json:"admins,omitempty,omitzero"`
}

// AllowRule permits what one of its patterns matches to the principals that meet all of its
// conditions; to every principal if it has none. In a pattern, * matches any characters.
type AllowRule struct {
	// Name is the name of the policy in explanations and audit lines.
	Name string `json:"name"`
	// Groups are groups and roles; a principal must have one of them.
	Groups []string `json:"groups,omitempty"`
	// Subjects are principals by their subject.
	Subjects []string `json:"subjects,omitempty"`
	// Clients are the client IDs of OAuth clients that a token was issued to.
	Clients []string `json:"clients,omitempty"`
	// Scopes are scopes that a token must have, all of them. A client with another token is asked to get one with them (step-up).
	Scopes []string `json:"scopes,omitempty"`
	// Tools are tools by their origin: backend.tool, or scripts.name.
	Tools []string `json:"tools,omitempty"`
	// Prompts are prompts by their origin: backend.prompt.
	Prompts []string `json:"prompts,omitempty"`
	// Resources are resources by their origin: backend.URI.
	Resources []string `json:"resources,omitempty"`
	// When restricts the rule to tools with the annotation readOnlyHint.
	When string `json:"when,omitempty" enum:"readOnly"`
}

// Admins are the principals who are admins, by group and subject.
type Admins struct {
	// Groups are groups and roles whose members are admins.
	Groups []string `json:"groups,omitempty"`
	// Subjects are admins by their subject.
	Subjects []string `json:"subjects,omitempty"`
}

// Enabled reports whether policies are evaluated.
func (a *Authz) Enabled() bool {
	return a.Type != "none" && (a.Type == "cedar" || a.hasPolicies())
}

func (a *Authz) hasPolicies() bool {
	return len(a.Policies)+len(a.PolicyFiles)+len(a.Allow) > 0
}

// GroupType is GroupEntityType or its default.
func (a *Authz) GroupType() string { return orDefault(a.GroupEntityType, "THVGroup") }

// SplitOrigin splits backend.name at its first dot: the name of a backend has none.
func SplitOrigin(origin string) (backend, name string, ok bool) {
	backend, name, ok = strings.Cut(origin, ".")
	return backend, name, ok && backend != "" && name != ""
}

// maxPolicyFiles bounds how many files of policies are read.
const maxPolicyFiles = 1000

// PolicyText is the source of some policies and its position.
type PolicyText struct {
	Text   string
	Origin diag.Origin
	Path   string // the field with it or with the name of its file
}

// PolicyTexts are the sources of all policies of the configuration. Files are read at each call:
// they may have changed since the configuration was read.
func (c *Config) PolicyTexts() ([]PolicyText, diag.Problems) {
	var texts []PolicyText
	var problems diag.Problems
	for i, text := range c.IncomingAuth.Authz.Policies {
		path := document.IndexPath("incomingAuth.authz.policies", i)
		texts = append(texts, PolicyText{Text: text, Origin: c.Origin(path), Path: path})
	}
	for i, pattern := range c.IncomingAuth.Authz.PolicyFiles {
		path := document.IndexPath("incomingAuth.authz.policyFiles", i)
		refuse := func(format string, args ...any) {
			problems = append(problems, diag.Problem{Pos: c.Place(path), Path: path, Code: code}.Says(fmt.Sprintf(format, args...)))
		}
		names := matching(pattern)
		if len(names) == 0 {
			refuse("no file %s", diag.File(pattern))
		}
		for _, name := range names {
			if len(texts) == maxPolicyFiles {
				refuse("more than %d sources of policies", maxPolicyFiles)
				return texts, problems
			}
			data, err := files.Read(name, MaxFile)
			if err != nil {
				refuse("%s: %s", diag.File(name), files.Cause(err).Error())
				continue
			}
			texts = append(texts, PolicyText{Text: string(data), Origin: diag.InFile(name), Path: path})
		}
	}
	return texts, problems
}

// matching are the files that match a pattern, sorted.
func matching(pattern string) []string {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return []string{pattern}
	}
	names, _ := filepath.Glob(pattern) // a bad pattern is refused by validation
	slices.Sort(names)
	return names
}

const noPolicies = "authz needs policies, policyFiles or allow: without them every request would be denied; type: none is for an endpoint where everybody who is authenticated may do everything"

// Unrestricted reports whether other machines reach the endpoint, callers are authenticated, and nothing says what they may do.
func (c *Config) Unrestricted() bool { return c.ruleless && !IsLoopback(c.Listen) }

// EveryCallerMayDoEverything is the warning about an endpoint that is Unrestricted.
const EveryCallerMayDoEverything = "everybody who is authenticated may do everything: there is no authz; write its rules, or authz: {type: none} if this is intended"

// authz checks incomingAuth.authz.
func (v *validator) authz(c *Config) {
	const path = "incomingAuth.authz"
	a := &c.IncomingAuth.Authz
	present := v.Set(path) || v.Null(path)
	c.ruleless = !present && slices.Contains([]string{"oidc", "tokens", "mtls"}, c.IncomingAuth.Type)
	if c.Unrestricted() {
		v.Warn("incomingAuth", EveryCallerMayDoEverything)
	}
	switch {
	case a.Type == "cedar" && !a.hasPolicies():
		v.Report(path+".type", noPolicies)
	case a.Type == "" && !a.hasPolicies() && present:
		v.Report(path, noPolicies) // not an open door for whoever removes the last rule, or renders an empty list
	case a.Type == "none" && a.hasPolicies():
		v.Report(path+".type", "type none ignores the policies that are configured; want cedar")
	}
	for i, text := range a.Policies {
		if strings.TrimSpace(text) == "" {
			v.Report(document.IndexPath(path+".policies", i), `want a policy such as permit(principal, action, resource);`)
		}
	}
	for i := range a.PolicyFiles {
		v.policyFile(document.IndexPath(path+".policyFiles", i), &a.PolicyFiles[i])
	}
	names := map[string]int{}
	for i := range a.Allow {
		v.allow(c, document.IndexPath(path+".allow", i), &a.Allow[i], names, i)
	}
	if !a.Enabled() {
		return
	}
	for i, b := range c.Backends {
		if b.Name == ScriptsOrigin {
			v.Report(document.IndexPath("backends", i)+".name", "%q is the name of scripted tools in policies; want another name", b.Name)
		}
	}
}

func (v *validator) policyFile(path string, name *string) {
	if *name == "" {
		v.Report(path, "want the name of a file")
		return
	}
	given := *name
	*name = v.Absolute(given)
	if _, err := filepath.Match(*name, ""); err != nil {
		v.Report(path, "%q: a [ without its ]", given)
		return
	}
	if len(matching(*name)) == 0 {
		v.Report(path, "no file %q", given)
	} else if *name == matching(*name)[0] {
		checked := given
		v.Existing(path, &checked)
	}
}

func (v *validator) allow(c *Config, path string, r *AllowRule, names map[string]int, i int) {
	if first, twice := names[r.Name]; twice && r.Name != "" {
		v.Report(path+".name", "%q is the name of allow[%d], too", r.Name, first)
	}
	names[r.Name] = i
	if r.Name != "" && strings.ContainsFunc(r.Name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		v.Report(path+".name", "want a name without control characters")
	}
	if len(r.Tools)+len(r.Prompts)+len(r.Resources) == 0 {
		v.Report(path, `allows nothing: want tools, prompts or resources, such as tools: ["files.*"]`)
	}
	for _, list := range []struct {
		field    string
		patterns []string
		example  string
	}{{"tools", r.Tools, "files.read"}, {"prompts", r.Prompts, "files.*"}, {"resources", r.Resources, "files.note://*"}} {
		for k, pattern := range list.patterns {
			v.pattern(c, document.IndexPath(path+"."+list.field, k), pattern, list.example)
		}
	}
	for _, list := range []struct {
		field  string
		values []string
	}{{"groups", r.Groups}, {"subjects", r.Subjects}, {"clients", r.Clients}} {
		for k, value := range list.values {
			if value == "" {
				v.Report(document.IndexPath(path+"."+list.field, k), "want a name, not an empty string")
			}
		}
		if list.values != nil && len(list.values) == 0 {
			v.Report(path+"."+list.field, "an empty list matches no principal: want names, or leave it out to match all")
		}
	}
	v.Scopes(path+".scopes", r.Scopes)
	if r.When == "readOnly" && len(r.Tools) == 0 {
		v.Report(path+".when", "readOnly is about tools, and this rule has none")
	}
}

// pattern checks a pattern over origins. A backend that does not exist is reported: the rule
// would allow less than its author expects.
func (v *validator) pattern(c *Config, path, pattern, example string) {
	if pattern == "*" {
		return
	}
	backend, name, found := strings.Cut(pattern, ".")
	if !found || backend == "" || name == "" {
		v.Report(path, `want an origin, which is a backend and its own name for it, such as %q, or "*" for all; have %q`, example, pattern)
		return
	}
	if strings.Contains(backend, "*") || backend == ScriptsOrigin {
		return
	}
	var known []string
	for _, b := range c.Backends {
		if b.Name == backend {
			return
		}
		known = append(known, b.Name)
	}
	known = append(known, ScriptsOrigin)
	hint := ""
	if near := display.Nearest(backend, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near+"."+name)
	}
	v.Report(path, "there is no backend %q%s", backend, hint)
}
