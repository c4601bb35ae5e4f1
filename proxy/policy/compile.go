package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"
	publicast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// code is the code of problems with policies.
const code = "policy"

// maxPolicies bounds the policies: each is evaluated for each decision.
const maxPolicies = 10_000

// Compile compiles the policies of a configuration. The problems are errors, with which the set
// is nil, and warnings. The set is nil, too, when the configuration has no policies.
func Compile(cfg *config.Config) (*Set, diag.Problems) {
	a := &cfg.IncomingAuth.Authz
	if !a.Enabled() {
		return nil, nil
	}
	c := &compiler{cfg: cfg, names: map[string]bool{}, set: &Set{
		server: cedar.NewEntityUID("MCP", cedar.String(name(cfg))),
		groups: cedar.EntityType(a.GroupType()),
	}}
	c.entities(a.EntitiesJSON)
	for i := range a.Allow { // first: their names are fixed, those of policy texts are derived
		c.rule(&a.Allow[i], fmt.Sprintf("incomingAuth.authz.allow[%d]", i))
	}
	texts, problems := cfg.PolicyTexts()
	c.problems = append(c.problems, problems...)
	for _, t := range texts {
		c.text(t)
	}
	if len(c.set.policies) > maxPolicies {
		c.report("incomingAuth.authz", "%d policies, want at most %d", len(c.set.policies), maxPolicies)
	}
	if errs, _ := c.problems.Split(); len(errs) > 0 {
		return nil, c.problems.Sorted()
	}
	c.set.arrange()
	return c.set, c.problems.Sorted()
}

func name(cfg *config.Config) string {
	if cfg.Name == "" {
		return "vmcp"
	}
	return cfg.Name
}

type compiler struct {
	cfg      *config.Config
	set      *Set
	names    map[string]bool
	problems diag.Problems
}

func (c *compiler) report(path, format string, args ...any) {
	c.problems = append(c.problems, diag.Problem{Pos: c.cfg.Place(path), Path: path, Code: code}.Says(fmt.Sprintf(format, args...)))
}

// entities reads the entities of the configuration.
func (c *compiler) entities(text string) {
	c.set.entities = cedar.EntityMap{}
	if strings.TrimSpace(text) == "" {
		return
	}
	if err := c.set.entities.UnmarshalJSON([]byte(text)); err != nil {
		c.report("incomingAuth.authz.entitiesJson", `want a JSON list of entities such as [{"uid": {"type": "THVGroup", "id": "dev"}, "parents": [], "attrs": {}}]: %v`, err)
	}
}

// text reads the policies of one text.
func (c *compiler) text(t config.PolicyText) {
	list, err := cedar.NewPolicyListFromBytes(t.Origin.File, []byte(t.Text))
	if err != nil {
		c.problems = append(c.problems, parseProblem(t, err))
		return
	}
	if len(list) == 0 {
		c.problems = append(c.problems, diag.Problem{Pos: t.Origin.Pos, Path: pathOf(t), Code: code, Severity: diag.Warning, Message: "the text has no policies"})
	}
	for _, p := range list {
		pos := p.Position()
		at := within(t, pos.Line, pos.Column)
		id := string(p.Annotations()["id"])
		switch {
		case id == "":
			id = fmt.Sprintf("%s:%d", at.File, at.Line)
			if !t.Origin.Exact {
				id = t.Path
			}
			for n := 2; c.names[id]; n++ {
				id = strings.TrimSuffix(id, "#"+strconv.Itoa(n-1)) + "#" + strconv.Itoa(n)
			}
		case c.names[id]:
			c.problems = append(c.problems, diag.Problem{Pos: at, Path: pathOf(t), Code: code, Message: fmt.Sprintf("there is another policy with @id(%q); ids must be unique, because decisions name the policy by its id", id)})
			continue
		}
		c.names[id] = true
		made := compile(id, p)
		c.set.policies = append(c.set.policies, made)
		c.problems = append(c.problems, c.lint(made, at, pathOf(t))...)
	}
}

func pathOf(t config.PolicyText) string {
	if t.Origin.Exact && !strings.Contains(t.Path, ".policies[") {
		return "" // the position is enough
	}
	return t.Path
}

// within returns the position of a line and column of a policy text.
func within(t config.PolicyText, line, column int) diag.Pos {
	if !t.Origin.Exact {
		return t.Origin.Pos
	}
	return diag.Pos{File: t.Origin.File, Line: t.Origin.Line + line - 1, Column: t.Origin.Column + column - 1}
}

// compile prepares a policy for decisions: its scopes, and its probe and rest (see compiled).
func compile(id string, p *cedar.Policy) *compiled {
	tree := (*ast.Policy)(p.AST())
	c := &compiled{id: id, forbid: p.Effect() == cedar.Forbid, tree: tree, policy: p}
	if !c.forbid {
		c.scopes = strings.Fields(string(p.Annotations()["scopes"]))
	}
	probe := *tree
	probe.Effect, probe.Annotations = ast.EffectPermit, nil
	for i, condition := range tree.Conditions {
		if !readsArguments(condition.Body) {
			continue
		}
		probe.Conditions = tree.Conditions[:i:i]
		for _, later := range tree.Conditions[i:] {
			node := ast.NewNode(later.Body)
			if later.Condition == ast.ConditionUnless {
				node = ast.Not(node)
			}
			if c.rest == nil {
				c.rest = node.AsIsNode()
			} else {
				c.rest = ast.NewNode(c.rest).And(node).AsIsNode()
			}
		}
		break
	}
	c.probe = cedar.NewPolicyFromAST((*publicast.Policy)(&probe))
	return c
}

// arrange groups the policies by the kinds of entries that they may apply to.
func (s *Set) arrange() {
	for _, c := range s.policies {
		used := usesOf(c.tree)
		s.uses.add(used)
		for k := range kinds {
			if !s.isAbout(c.tree.Action, actionUIDs[k]) {
				continue
			}
			g := &s.byKind[k]
			g.all = append(g.all, c)
			if c.forbid {
				g.forbids = append(g.forbids, c)
			} else if len(c.scopes) > 0 {
				g.stepUps = append(g.stepUps, c)
			}
			g.args.add(used.args)
		}
	}
}

// isAbout reports whether a policy with this action scope may apply to an action.
func (s *Set) isAbout(scope ast.IsActionScopeNode, action cedar.EntityUID) bool {
	if _, grouped := s.entities[action]; grouped {
		return true // entitiesJson may place it in a group of actions
	}
	switch scope := scope.(type) {
	case ast.ScopeTypeEq:
		return scope.Entity == action
	case ast.ScopeTypeIn:
		return scope.Entity == action
	case ast.ScopeTypeInSet:
		return slices.Contains(scope.Entities, action)
	}
	return true
}

// Print returns the policies in Cedar's language, each with its name.
func (s *Set) Print() string {
	var b strings.Builder
	for i, c := range s.policies {
		if i > 0 {
			b.WriteString("\n\n")
		}
		if c.policy.Annotations()["id"] == "" {
			b.WriteString("// " + oneLine(c.id) + "\n")
		}
		b.Write(c.policy.MarshalCedar())
	}
	b.WriteString("\n")
	return b.String()
}

func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }

// Names returns the names of the policies, in order.
func (s *Set) Names() []string {
	names := make([]string, len(s.policies))
	for i, c := range s.policies {
		names[i] = c.id
	}
	return names
}
