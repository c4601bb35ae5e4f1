package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/spell"
)

// ScriptsOrigin stands for the backend in the origins of scripted and composite tools:
// scripts.NAME.
const ScriptsOrigin = "scripts"

// Authz says what principals may do. Without policies whoever came in may do everything;
// with them, what no policy permits is denied.
type Authz struct {
	// Type is cedar, where policies decide, or none. Without it: cedar where there are policies.
	Type string `json:"type,omitempty" enum:"cedar,none"`
	// Policies are policies in Cedar's language, one or several a text.
	Policies []string `json:"policies,omitempty"`
	// PolicyFiles are files of policies in Cedar's language, relative to the configuration file; * and ? stand for parts of a name. They are read anew when they change.
	PolicyFiles []string `json:"policyFiles,omitempty"`
	// EntitiesJSON are further entities that policies speak of, as Cedar writes them in JSON.
	EntitiesJSON string `json:"entitiesJson,omitempty"`
	// GroupClaimName is the claim with the groups. Without it: groups, roles or cognito:groups, the first that is there.
	GroupClaimName string `json:"groupClaimName,omitempty"`
	// RoleClaimName is a claim whose values are groups, too.
	RoleClaimName string `json:"roleClaimName,omitempty"`
	// GroupEntityType is what policies call a group.
	GroupEntityType string `json:"groupEntityType,omitempty" default:"THVGroup"`
	// Allow are rules in a short form. Each becomes one policy.
	Allow []AllowRule `json:"allow,omitempty"`
	// Scripts says whose rights the calls inside of a script need: those of its caller, or none, since who may call the script may have done what it does (owner).
	Scripts string `json:"scripts,omitempty" enum:"caller,owner" default:"caller"`
	// Admins may see traces of runs, and use the admin port with their own credential.
	Admins Admins `json:"admins,omitempty"`
}

// AllowRule permits what one of its patterns matches to a principal that fits all of what the
// rule says about principals; to everybody if it says nothing. In a pattern, * is any text.
type AllowRule struct {
	// Name is what the policy is called in explanations and audit lines.
	Name string `json:"name"`
	// Groups are groups and roles, of which a principal needs one.
	Groups []string `json:"groups,omitempty"`
	// Subjects are principals by their subject.
	Subjects []string `json:"subjects,omitempty"`
	// Clients are OAuth clients that a token was given to.
	Clients []string `json:"clients,omitempty"`
	// Scopes are what a token needs, all of them. A token without them can be exchanged for one with them (step-up).
	Scopes []string `json:"scopes,omitempty"`
	// Tools are tools by their origin: backend.tool, or scripts.name.
	Tools []string `json:"tools,omitempty"`
	// Prompts are prompts by their origin: backend.prompt.
	Prompts []string `json:"prompts,omitempty"`
	// Resources are resources by their origin: backend.URI.
	Resources []string `json:"resources,omitempty"`
	// When restricts the rule to tools that say of themselves that they only read.
	When string `json:"when,omitempty" enum:"readOnly"`
}

// Admins are principals by their groups and subjects.
type Admins struct {
	// Groups are groups and roles, one of which makes an admin.
	Groups []string `json:"groups,omitempty"`
	// Subjects are admins by their subject.
	Subjects []string `json:"subjects,omitempty"`
}

// Enabled reports whether policies decide.
func (a *Authz) Enabled() bool {
	return a.Type == "cedar" || a.Type == "" && a.hasPolicies()
}

func (a *Authz) hasPolicies() bool {
	return len(a.Policies)+len(a.PolicyFiles)+len(a.Allow) > 0
}

// GroupType is GroupEntityType or what stands for it.
func (a *Authz) GroupType() string { return orDefault(a.GroupEntityType, "THVGroup") }

// SplitOrigin divides backend.name at its first dot: the name of a backend has none.
func SplitOrigin(origin string) (backend, name string, ok bool) {
	backend, name, ok = strings.Cut(origin, ".")
	return backend, name, ok && backend != "" && name != ""
}

// maxPolicyFiles bounds how many files of policies are read.
const maxPolicyFiles = 1000

// PolicyText is a text of policies, and where it stands.
type PolicyText struct {
	Text   string
	Origin diag.Origin
	Path   string // the field that holds or names it
}

// PolicyTexts are the texts of policies that the configuration holds or names. Files are read
// now: they may have changed since the configuration was.
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
			problems = append(problems, diag.Problem{Pos: c.Place(path), Path: path, Code: code, Message: fmt.Sprintf(format, args...)})
		}
		names := matching(pattern)
		if len(names) == 0 {
			refuse("no file %s", diag.File(pattern))
		}
		for _, name := range names {
			if len(texts) == maxPolicyFiles {
				refuse("more than %d texts of policies", maxPolicyFiles)
				return texts, problems
			}
			data, err := files.Read(name, MaxFile)
			if err != nil {
				refuse("%s: %s", diag.File(name), withoutPath(err))
				continue
			}
			texts = append(texts, PolicyText{Text: string(data), Origin: diag.InFile(name), Path: path})
		}
	}
	return texts, problems
}

func withoutPath(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return err.Error()
}

// matching are the files that a pattern names, in order.
func matching(pattern string) []string {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return []string{pattern}
	}
	names, _ := filepath.Glob(pattern) // a bad pattern is refused by validation
	slices.Sort(names)
	return names
}

// authz checks what says who may do what.
func (v *validator) authz(c *Config) {
	const path = "incomingAuth.authz"
	a := &c.IncomingAuth.Authz
	switch {
	case a.Type == "cedar" && !a.hasPolicies():
		v.report(path+".type", "cedar needs policies, policyFiles or allow: with none of them everything would be denied to everybody")
	case a.Type == "none" && a.hasPolicies():
		v.report(path+".type", "none, and yet there are policies: they would decide nothing; want cedar")
	}
	for i, text := range a.Policies {
		if strings.TrimSpace(text) == "" {
			v.report(document.IndexPath(path+".policies", i), `want a policy such as permit(principal, action, resource);`)
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
			v.report(document.IndexPath("backends", i)+".name", "%q is what policies call the tools of scripts; want another name", b.Name)
		}
	}
}

func (v *validator) policyFile(path string, name *string) {
	if *name == "" {
		v.report(path, "want the name of a file")
		return
	}
	given := *name
	*name = v.absolute(given)
	if _, err := filepath.Match(*name, ""); err != nil {
		v.report(path, "%q: a [ without its ]", given)
		return
	}
	if len(matching(*name)) == 0 {
		v.report(path, "no file %q", given)
	} else if *name == matching(*name)[0] {
		checked := given
		v.existing(path, &checked)
	}
}

func (v *validator) allow(c *Config, path string, r *AllowRule, names map[string]int, i int) {
	if first, twice := names[r.Name]; twice && r.Name != "" {
		v.report(path+".name", "%q is the name of allow[%d], too", r.Name, first)
	}
	names[r.Name] = i
	if r.Name != "" && strings.ContainsFunc(r.Name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		v.report(path+".name", "want a name without control characters")
	}
	if len(r.Tools)+len(r.Prompts)+len(r.Resources) == 0 {
		v.report(path, `allows nothing: want tools, prompts or resources, such as tools: ["files.*"]`)
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
				v.report(document.IndexPath(path+"."+list.field, k), "want a name, not an empty text")
			}
		}
		if list.values != nil && len(list.values) == 0 {
			v.report(path+"."+list.field, "an empty list would hold for nobody, and no list at all holds for everybody: want names, or leave it out")
		}
	}
	v.scopes(path+".scopes", r.Scopes)
	if r.When == "readOnly" && len(r.Tools) == 0 {
		v.report(path+".when", "readOnly is about tools, and this rule has none")
	}
}

// pattern checks a pattern over origins. A backend that does not exist is a mistake: the rule
// would allow less than is read in it.
func (v *validator) pattern(c *Config, path, pattern, example string) {
	if pattern == "*" {
		return
	}
	backend, name, found := strings.Cut(pattern, ".")
	if !found || backend == "" || name == "" {
		v.report(path, `want an origin, which is a backend and its own name for it, such as %q, or "*" for all; have %q`, example, pattern)
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
	if near := spell.Nearest(backend, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near+"."+name)
	}
	v.report(path, "there is no backend %q%s", backend, hint)
}
