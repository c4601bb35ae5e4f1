package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/eval"
)

// uses is the properties of principals, and the arguments, that policies read. Principals that are
// equal in these properties have one class.
type uses struct {
	whole      bool // the principal or the context as a whole
	parents    []cedar.EntityUID
	attributes []string
	scopes     []string // tested by name
	context    []string // members that are not arguments
	args       argUses
}

func (u *uses) add(o uses) {
	u.whole = u.whole || o.whole
	for _, uid := range o.parents {
		u.parents = once(u.parents, uid)
	}
	for _, l := range []struct {
		to   *[]string
		from []string
	}{{&u.attributes, o.attributes}, {&u.scopes, o.scopes}, {&u.context, o.context}} {
		for _, s := range l.from {
			*l.to = once(*l.to, s)
		}
	}
	u.args.add(o.args)
}

func once[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// mayRead reports whether policies may read a member of the context.
func (u *uses) mayRead(name string) bool {
	return u.whole || u.args.all || slices.Contains(u.context, name)
}

// readsArguments reports whether an expression depends on arguments.
func readsArguments(n ast.IsNode) bool {
	u := uses{}
	u.collect(n)
	return !u.args.none()
}

func usesOf(p *ast.Policy) (u uses) {
	u.collect(eval.PolicyToNode(p).AsIsNode())
	return u
}

// collect adds what an expression reads.
func (u *uses) collect(n ast.IsNode) {
	switch n := n.(type) {
	case ast.NodeTypeVariable:
		switch n.Name {
		case "principal":
			u.whole = true
		case "context":
			u.args.all, u.whole = true, true
		}
		return
	case ast.NodeTypeAccess:
		if u.attribute(n.StrOpNode) {
			return
		}
	case ast.NodeTypeHas:
		if u.attribute(n.StrOpNode) {
			return
		}
	case ast.NodeTypeIs:
		if isPrincipal(n.Left) {
			return
		}
	case ast.NodeTypeIsIn:
		if u.compared(n.Left, n.Entity) {
			return
		}
	case ast.NodeTypeIn:
		if u.compared(n.Left, n.Right) {
			return
		}
	case ast.NodeTypeEquals:
		if u.compared(n.Left, n.Right) || u.compared(n.Right, n.Left) {
			return
		}
	case ast.NodeTypeNotEquals:
		if u.compared(n.Left, n.Right) || u.compared(n.Right, n.Left) {
			return
		}
	case ast.NodeTypeContains:
		if u.askedScopes(n.BinaryNode) {
			return
		}
	case ast.NodeTypeContainsAll:
		if u.askedScopes(n.BinaryNode) {
			return
		}
	}
	first := true
	ast.Inspect(ast.NewNode(n), func(child ast.IsNode) bool {
		if first {
			first = false
			return true
		}
		u.collect(child)
		return false
	})
}

func isVariable(n ast.IsNode, name types.String) bool {
	v, ok := n.(ast.NodeTypeVariable)
	return ok && v.Name == name
}

func isPrincipal(n ast.IsNode) bool { return isVariable(n, "principal") }

// attribute adds an attribute of the principal or a member of the context; false for other expressions.
func (u *uses) attribute(n ast.StrOpNode) bool {
	name := string(n.Value)
	switch {
	case isPrincipal(n.Arg):
		u.attributes = once(u.attributes, name)
	case !isContext(n.Arg):
		return false
	case name == "arguments":
		u.args.record = true
	case strings.HasPrefix(name, "arg_"):
		u.args.note(name)
	default:
		u.context = once(u.context, name)
	}
	return true
}

// compared adds the entities that the principal is compared with; false for other comparisons.
func (u *uses) compared(left, right ast.IsNode) bool {
	if !isPrincipal(left) {
		return false
	}
	switch right := right.(type) {
	case ast.NodeValue:
		switch v := right.Value.(type) {
		case cedar.EntityUID:
			u.parents = once(u.parents, v)
			return true
		case cedar.Set:
			for e := range v.All() {
				uid, ok := e.(cedar.EntityUID)
				if !ok {
					return false
				}
				u.parents = once(u.parents, uid)
			}
			return true
		}
	case ast.NodeTypeSet:
		for _, e := range right.Elements {
			if !u.compared(left, e) {
				return false
			}
		}
		return true
	}
	return false
}

// askedScopes adds the scopes that the principal is tested for; false for other expressions.
func (u *uses) askedScopes(n ast.BinaryNode) bool {
	access, ok := n.Left.(ast.NodeTypeAccess)
	if !ok || !isPrincipal(access.Arg) || access.Value != "scopes" {
		return false
	}
	texts, ok := literalTexts(n.Right)
	for _, t := range texts {
		u.scopes = once(u.scopes, t)
	}
	return ok
}

func literalTexts(n ast.IsNode) (texts []string, ok bool) {
	switch n := n.(type) {
	case ast.NodeValue:
		switch v := n.Value.(type) {
		case types.String:
			return []string{string(v)}, true
		case types.Set:
			for e := range v.All() {
				t, ok := e.(types.String)
				if !ok {
					return nil, false
				}
				texts = append(texts, string(t))
			}
			return texts, true
		}
	case ast.NodeTypeSet:
		for _, e := range n.Elements {
			one, ok := literalTexts(e)
			if !ok || len(one) != 1 {
				return nil, false
			}
			texts = append(texts, one...)
		}
		return texts, true
	}
	return nil, false
}

// classOf returns a hash over the properties of p that policies read.
func (s *Set) classOf(p *Principal) (class [sha256.Size]byte) {
	h := sha256.New()
	u := &s.uses
	_, named := s.entities[p.entity.UID]
	if u.whole || named {
		add(h, p.identity.Issuer, p.identity.Subject, p.identity.Client, p.identity.Profile)
		add(h, slices.Sorted(slices.Values(p.identity.Groups))...)
		add(h, slices.Sorted(slices.Values(p.identity.Scopes))...)
		add(h, string(p.entity.Attributes.MarshalCedar()))
	}
	w := world{set: s, p: p, e: &Entry{}}
	for _, uid := range u.parents {
		in, _ := eval.Eval(ast.Principal().In(ast.Value(uid)).AsIsNode(), eval.Env{Entities: &w, Principal: p.entity.UID})
		add(h, string(bit(in == types.True)))
	}
	for _, name := range u.attributes {
		v, ok := p.entity.Attributes.Get(types.String(name))
		if !ok {
			add(h, "-")
			continue
		}
		add(h, string(v.MarshalCedar()))
	}
	for _, scope := range u.scopes {
		add(h, string(bit(slices.Contains(p.identity.Scopes, scope))))
	}
	for _, name := range u.context {
		v, ok := p.claims[types.String(name)]
		if !ok {
			add(h, "-")
			continue
		}
		add(h, string(v.MarshalCedar()))
	}
	h.Sum(class[:0])
	return class
}

// add hashes texts with their lengths, so that different lists cannot be encoded alike.
func add(h hash.Hash, texts ...string) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(texts))))
	for _, t := range texts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(t))))
		h.Write([]byte(t))
	}
}
