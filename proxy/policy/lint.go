package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// listActions are accepted and have no effect: lists show the entries that may be used.
var listActions = []string{"list_tools", "list_prompts", "list_resources", "list_resource_templates"}

// lint warns of likely mistakes in a policy.
func (c *compiler) lint(p *compiled, at diag.Pos, path string) (problems diag.Problems) {
	warn := func(format string, args ...any) {
		problems = append(problems, diag.Problem{Pos: at, Path: path, Code: code, Severity: diag.Warning}.Says(fmt.Sprintf(format, args...)))
	}
	var n names
	n.collect(eval.PolicyToNode(p.tree).AsIsNode())
	for _, uid := range n.entities {
		c.lintEntity(uid, warn)
	}
	for _, name := range n.byName {
		c.lintExposed(Tool, name, warn)
	}
	if p.forbid {
		for _, key := range n.read {
			if !slices.Contains(n.guarded, key) {
				warn("forbids every call without the argument %s, because its condition cannot be evaluated then; begin the condition with context has %s && if only calls with the argument are meant", strings.TrimPrefix(key, "arg_"), key)
			}
		}
	}
	return problems
}

func (c *compiler) lintEntity(uid cedar.EntityUID, warn func(string, ...any)) {
	if _, known := c.set.entities[uid]; known {
		return
	}
	id := string(uid.ID)
	switch uid.Type {
	case "Action":
		all := append(actionNames[:], listActions...)
		if slices.Contains(all, id) {
			return
		}
		warn("there is no action %q%s", id, display.Hint(id, all))
	case "Tool":
		c.lintExposed(Tool, id, warn)
	case "Prompt":
		c.lintExposed(Prompt, id, warn)
	case "MCP":
		if uid != c.set.server {
			warn("this server is %s, by the field name of the configuration; %s is another one", c.set.server, uid)
		}
	case "Backend":
		if id != config.ScriptsOrigin && !slices.ContainsFunc(c.cfg.Backends, func(b config.Backend) bool { return b.Name == id }) {
			warn("there is no backend %q", id)
		}
	case "Client", "Resource", "FeatureType", c.set.groups:
	default:
		if !slices.ContainsFunc(keys(c.set.entities), func(known cedar.EntityUID) bool { return known.Type == uid.Type }) {
			warn("no entity has the type %s; want Client, %s, Action, Tool, Prompt, Resource, Backend or MCP", uid.Type, c.set.groups)
		}
	}
}

func keys(m cedar.EntityMap) (uids []cedar.EntityUID) {
	for uid := range m {
		uids = append(uids, uid)
	}
	return uids
}

// lintExposed warns of an exposed name that another backend can claim, and suggests the origin instead.
func (c *compiler) lintExposed(kind Kind, name string, warn func(string, ...any)) {
	if len(c.cfg.Backends) < 2 || kind == Tool && c.isScript(name) {
		return
	}
	backend, original := c.originOf(kind, name)
	warn("%q is the exposed name of the %s, which another backend can claim while the intended one is down; use the origin, which cannot be claimed: resource.backend == %q && resource.original == %q", name, kind, backend, original)
}

func (c *compiler) isScript(name string) bool {
	return slices.ContainsFunc(c.cfg.ScriptedTools, func(t config.ScriptedTool) bool { return t.Name == name }) ||
		slices.ContainsFunc(c.cfg.CompositeTools, func(t config.CompositeTool) bool { return t.Name == name })
}

// originOf returns the origin of an exposed name by the configuration alone, else placeholders.
func (c *compiler) originOf(kind Kind, name string) (backend, original string) {
	for _, b := range c.cfg.Backends { // the longest matching name
		if rest, ok := strings.CutPrefix(name, c.cfg.PrefixOf(b.Name)); ok && rest != "" && c.cfg.PrefixOf(b.Name) != "" && len(b.Name) > len(backend) {
			backend, original = b.Name, rest
		}
	}
	if backend == "" {
		return "BACKEND", name
	}
	if kind == Tool {
		for _, w := range c.cfg.Aggregation.Tools {
			for own, over := range w.Overrides {
				if w.Workload == backend && over.Name == original {
					return backend, own
				}
			}
		}
	}
	return backend, original
}

// names are the entities, names and arguments that occur in a policy.
type names struct {
	entities []cedar.EntityUID
	byName   []string // resource.name == "…"
	read     []string // members of the context that are arguments
	guarded  []string // those that are tested with has
}

func (n *names) collect(of ast.IsNode) {
	ast.Inspect(ast.NewNode(of), func(node ast.IsNode) bool {
		switch node := node.(type) {
		case ast.NodeValue:
			n.value(node.Value)
		case ast.NodeTypeEquals:
			n.named(node.Left, node.Right)
			n.named(node.Right, node.Left)
		case ast.NodeTypeAccess:
			if isContext(node.Arg) && strings.HasPrefix(string(node.Value), "arg_") {
				n.read = once(n.read, string(node.Value))
			}
		case ast.NodeTypeHas:
			if isContext(node.Arg) {
				n.guarded = append(n.guarded, string(node.Value))
			}
		}
		return true
	})
}

func (n *names) value(v types.Value) {
	switch v := v.(type) {
	case cedar.EntityUID:
		n.entities = once(n.entities, v)
	case cedar.Set:
		for e := range v.All() {
			n.value(e)
		}
	}
}

func (n *names) named(left, right ast.IsNode) {
	access, ok := left.(ast.NodeTypeAccess)
	value, is := right.(ast.NodeValue)
	if ok && is && isVariable(access.Arg, "resource") && access.Value == "name" {
		if text, ok := value.Value.(types.String); ok {
			n.byName = once(n.byName, string(text))
		}
	}
}
