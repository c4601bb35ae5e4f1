// Package policy decides what a principal may do: call a tool, get a prompt, read a resource.
// It knows neither HTTP nor MCP.
//
//	set, problems := policy.Compile(cfg)
//	bob := set.Principal(policy.Identity{Subject: "bob", Groups: []string{"dev"}})
//	d := set.Decide(bob, set.Entry(policy.Of{Kind: policy.Tool, Name: "files_read", Backend: "files", Original: "read"}), arguments)
//	if d.Outcome == policy.Allow { … }
//
// Policies are Cedar's (https://www.cedarpolicy.com): what no permit holds for is denied, and a
// forbid that holds wins. Three things are stricter than in Cedar itself:
//
//   - A forbid whose condition fails, such as one that compares an argument that is not
//     there, denies; Cedar skips it.
//   - Arguments that a policy speaks of and that stand twice, or in another case, deny: a
//     tool may read another one than the policy.
//   - An entry whose exposed name several backends claim goes by its origin in permits, while
//     forbids that speak of the exposed name still hold for it.
//
// What is asked for a list is Possible: whether there are arguments for which Decide would
// allow. possible.go says how far that is exact.
package policy

import (
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// Kind is what kind of thing somebody wants to use, and so the action: call_tool, get_prompt
// or read_resource.
type Kind uint8

// The kinds.
const (
	Tool Kind = iota
	Prompt
	Resource
	kinds
)

var kindNames = [kinds]string{"tool", "prompt", "resource"}

func (k Kind) String() string { return kindNames[k] }

// KindOf is the kind of that name.
func KindOf(name string) (Kind, bool) {
	for k, n := range kindNames {
		if n == name {
			return Kind(k), true
		}
	}
	return 0, false
}

// Action is what is done with a thing of this kind.
func (k Kind) Action() string { return actionNames[k] }

var actionNames = [kinds]string{"call_tool", "get_prompt", "read_resource"}

// Outcome is how a question is decided.
type Outcome uint8

// The outcomes.
const (
	Invisible Outcome = iota // denied whatever the arguments and scopes are: for the principal there is no such thing
	Deny                     // denied with these arguments
	StepUp                   // denied, and allowed to the same principal with further scopes
	Allow
)

var outcomeNames = [...]string{"invisible", "deny", "step-up", "allow"}

func (o Outcome) String() string { return outcomeNames[o] }

// OutcomeOf is the outcome of that name.
func OutcomeOf(name string) (Outcome, bool) {
	for o, n := range outcomeNames {
		if n == name {
			return Outcome(o), true
		}
	}
	return 0, false
}

// Decision is an outcome and its reasons.
type Decision struct {
	Outcome Outcome
	// Policies are the names of those that decided: the forbids that held or failed, or the
	// permits that held. Empty when nothing permits.
	Policies []string
	// Scopes are what a StepUp needs.
	Scopes []string
	// Reason says what is not in Policies; for logs, never for a client.
	Reason string
	// Open says, of Possible, that it depends on the arguments.
	Open bool
}

// Equal reports whether two decisions say the same.
func (d Decision) Equal(o Decision) bool {
	return d.Outcome == o.Outcome && d.Open == o.Open && d.Reason == o.Reason && slices.Equal(d.Policies, o.Policies) && slices.Equal(d.Scopes, o.Scopes)
}

// A Set is the policies of one configuration. It does not change, and is safe for concurrent use.
type Set struct {
	policies []*compiled
	byKind   [kinds]group
	entities cedar.EntityMap // of the configuration
	server   cedar.EntityUID
	groups   cedar.EntityType
	uses     uses
	known    sync.Map     // results of search, by the open conditions
	kept     atomic.Int64 // how many were found

	failed sync.Map // names of policies whose failure was reported
	// OnFailure is called once per policy whose condition cannot be evaluated.
	OnFailure func(policy, err string)
}

// compiled is one policy.
type compiled struct {
	id     string // its name
	forbid bool
	tree   *ast.Policy
	policy *cedar.Policy
	scopes []string // of a permit that says which scopes it is for

	// probe permits where the policy would hold, or where the conditions before the
	// first about arguments do.
	probe *cedar.Policy
	rest  ast.IsNode // the remaining conditions, which are about arguments; nil: there are none
}

// group is the policies that may speak of one kind of entry.
type group struct {
	all     ordered
	forbids ordered
	stepUps []*compiled
	args    argUses // of all together
}

// ordered are policies for the authorizer, which reads them by their index.
type ordered []*compiled

// exact, probing: the two forms in which the authorizer gets policies.
type (
	exact   ordered
	probing ordered
)

func (o exact) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, c := range o {
			if !yield(cedar.PolicyID(c.id), c.policy) {
				return
			}
		}
	}
}

func (o probing) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, c := range o {
			if !yield(cedar.PolicyID(c.id), c.probe) {
				return
			}
		}
	}
}

// find is the policy of that name; names are unique in a set.
func (o ordered) find(id cedar.PolicyID) *compiled {
	for _, c := range o {
		if c.id == string(id) {
			return c
		}
	}
	return nil
}

// Decide says whether p may use e with these arguments, which are a JSON object or nothing. A
// resource has none.
func (s *Set) Decide(p *Principal, e *Entry, arguments json.RawMessage) Decision {
	if !s.ReadsArguments(e.kind) {
		return s.Possible(p, e)
	}
	g := &s.byKind[e.kind]
	values, err := g.args.values(arguments)
	if err != nil {
		d := s.Possible(p, e)
		if d.Outcome != Invisible {
			d = Decision{Outcome: Deny, Reason: err.Error()}
		}
		return d
	}
	d := s.ask(g, p, e, p.context(values))
	if d.Outcome == Allow {
		return d
	}
	for _, c := range g.stepUps {
		more := p.with(s, c)
		if more == p {
			continue
		}
		if up := s.ask(g, more, e, more.context(values)); up.Outcome == Allow {
			return Decision{Outcome: StepUp, Policies: up.Policies, Scopes: c.scopes}
		}
	}
	d.Outcome = min(Deny, s.Possible(p, e).Outcome)
	return d
}

// ReadsArguments reports whether decisions about entries of a kind can depend on arguments. If
// not, Decide comes to what Possible does.
func (s *Set) ReadsArguments(k Kind) bool { return k != Resource && !s.byKind[k].args.none() }

// ask asks once. The outcome is Allow or Deny.
func (s *Set) ask(g *group, p *Principal, e *Entry, context cedar.Record) Decision {
	w := world{set: s, p: p, e: e}
	if e.contested {
		w.exposed = true
		if d := s.authorize(g.forbids, &w, context); len(d.Policies) > 0 {
			return d
		}
		w.exposed = false
	}
	return s.authorize(g.all, &w, context)
}

func (s *Set) authorize(policies ordered, w *world, context cedar.Record) Decision {
	decision, why := cedar.Authorize(exact(policies), w, w.request(context))
	var failed []string
	for _, e := range why.Errors {
		s.report(string(e.PolicyID), e.Message)
		if policies.find(e.PolicyID).forbid {
			failed = append(failed, string(e.PolicyID))
		}
	}
	if len(failed) > 0 {
		return Decision{Outcome: Deny, Policies: failed, Reason: "the condition of a forbid cannot be evaluated"}
	}
	d := Decision{Outcome: Deny}
	if decision == cedar.Allow {
		d.Outcome = Allow
	}
	for _, r := range why.Reasons {
		d.Policies = append(d.Policies, string(r.PolicyID))
	}
	return d
}

func (s *Set) report(id, err string) {
	if s.OnFailure == nil {
		return
	}
	if _, known := s.failed.LoadOrStore(id, true); !known {
		s.OnFailure(id, err)
	}
}
