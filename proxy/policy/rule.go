package policy

import (
	"strings"

	"github.com/cedar-policy/cedar-go"
	publicast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/vmcp-dev/vmcp/config"
)

// rule compiles a rule of incomingAuth.authz.allow, the short form.
func (c *compiler) rule(r *config.AllowRule, path string) {
	if c.names[r.Name] {
		return // reported by package config
	}
	c.names[r.Name] = true
	p := ast.Annotation("id", types.String(r.Name))
	if len(r.Scopes) > 0 {
		p = p.Annotation("scopes", types.String(strings.Join(r.Scopes, " ")))
	}
	policy := p.Permit()
	used := kindsOf(r)
	if len(used) == 1 {
		policy.ActionEq(actionUIDs[used[0].kind])
		policy.ResourceIs(entityTypes[used[0].kind])
	} else {
		var actions []cedar.EntityUID
		for _, u := range used {
			actions = append(actions, actionUIDs[u.kind])
		}
		policy.ActionInSet(actions...)
	}
	when := func(nodes []ast.Node) {
		if len(nodes) > 0 {
			policy.When(anyOf(nodes))
		}
	}
	group := func(g string) ast.Node {
		return ast.Principal().In(ast.Value(cedar.NewEntityUID(c.set.groups, types.String(g))))
	}
	subject := func(s string) ast.Node {
		return ast.Principal().Equal(ast.Value(cedar.NewEntityUID("Client", types.String(s))))
	}
	client := func(s string) ast.Node { return ast.Principal().Access("client").Equal(ast.String(s)) }
	when(each(r.Groups, group))
	when(each(r.Subjects, subject))
	when(each(r.Clients, client))
	if len(r.Scopes) > 0 {
		policy.When(ast.Principal().Access("scopes").ContainsAll(ast.Set(each(r.Scopes, ast.String[string])...)))
	}
	policy.When(matching(used, r.When == "readOnly"))
	c.set.policies = append(c.set.policies, compile(r.Name, cedar.NewPolicyFromAST((*publicast.Policy)(policy))))
}

func each[T any](list []string, f func(string) T) []T {
	out := make([]T, len(list))
	for i, s := range list {
		out[i] = f(s)
	}
	return out
}

func anyOf(nodes []ast.Node) ast.Node {
	out := nodes[0]
	for _, n := range nodes[1:] {
		out = out.Or(n)
	}
	return out
}

// patterns are the patterns of a rule for one kind.
type patterns struct {
	kind Kind
	list []string
}

func kindsOf(r *config.AllowRule) (used []patterns) {
	for k, list := range [kinds][]string{r.Tools, r.Prompts, r.Resources} {
		if len(list) > 0 {
			used = append(used, patterns{Kind(k), list})
		}
	}
	return used
}

// matching returns the condition that one of the patterns matches the entry, and with readOnly
// that a tool has readOnlyHint.
func matching(used []patterns, readOnly bool) ast.Node {
	var alternatives []ast.Node
	for _, u := range used {
		is := anyOf(each(u.list, policyMatches))
		if readOnly && u.kind == Tool {
			is = ast.Resource().Has("readOnlyHint").And(ast.Resource().Access("readOnlyHint")).And(is)
		}
		if len(used) > 1 {
			is = ast.Resource().Is(entityTypes[u.kind]).And(is)
		}
		alternatives = append(alternatives, is)
	}
	return anyOf(alternatives)
}

// policyMatches returns the condition that a pattern over origins matches the entry.
func policyMatches(pattern string) ast.Node {
	if pattern == "*" {
		return ast.True()
	}
	backend, name, _ := strings.Cut(pattern, ".")
	return like("backend", backend).And(like("original", name))
}

func like(attribute types.String, pattern string) ast.Node {
	value := ast.Resource().Access(attribute)
	if !strings.Contains(pattern, "*") {
		return value.Equal(ast.String(pattern))
	}
	var parts []any
	for i, text := range strings.Split(pattern, "*") {
		if i > 0 {
			parts = append(parts, types.Wildcard{})
		}
		parts = append(parts, text)
	}
	return value.Like(types.NewPattern(parts...))
}
