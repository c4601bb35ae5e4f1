// Package policy decides what a principal may do: call a tool, get a prompt, read a resource.
// It knows neither HTTP nor MCP. Rate limits are in quota.go.
//
//	set, problems := policy.Compile(cfg)
//	bob := set.Principal(policy.Identity{Subject: "bob", Groups: []string{"dev"}})
//	d := set.Decide(bob, set.Entry(policy.Of{Kind: policy.Tool, Name: "files_read", Backend: "files", Original: "read"}), arguments)
//	if d.Outcome == policy.Allow { … }
//
// Policies are Cedar's (https://www.cedarpolicy.com): a request is allowed if a permit applies and
// no forbid does. Three rules are stricter than in Cedar itself:
//
//   - A forbid whose condition cannot be evaluated, such as one that compares a missing
//     argument, denies; Cedar skips it.
//   - Arguments that are given twice, or whose name differs only in case from one that
//     policies read, deny: the tool may read another value than the policy.
//   - An entry whose exposed name several backends claim is identified by its origin in permits;
//     forbids on the exposed name apply as well.
//
// Lists use Possible: whether there are arguments for which Decide allows. possible.go
// documents how exact that is.
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

// Kind is the kind of an entry, which determines the action: call_tool, get_prompt or
// read_resource.
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

// KindOf returns the kind of a name.
func KindOf(name string) (Kind, bool) {
	for k, n := range kindNames {
		if n == name {
			return Kind(k), true
		}
	}
	return 0, false
}

// Action returns the name of the Cedar action on entries of this kind.
func (k Kind) Action() string { return actionNames[k] }

var actionNames = [kinds]string{"call_tool", "get_prompt", "read_resource"}

// Outcome is the outcome of a decision.
type Outcome uint8

// The outcomes.
const (
	Invisible Outcome = iota // denied with any arguments and scopes: not listed, and reported as unknown
	Deny                     // denied with these arguments
	StepUp                   // denied, but allowed to the principal with further scopes
	Allow
)

var outcomeNames = [...]string{"invisible", "deny", "step-up", "allow"}

func (o Outcome) String() string { return outcomeNames[o] }

// OutcomeOf returns the outcome of a name.
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
	// Policies are the names of the deciding policies: the forbids that applied or could not be
	// evaluated, or the permits that applied. Empty when no permit applies.
	Policies []string
	// Scopes are the scopes that a StepUp needs.
	Scopes []string
	// Reason is a further reason, for logs, never for clients.
	Reason string
	// Open is set by Possible when the decision depends on the arguments.
	Open bool
}

// Equal reports whether all fields of two decisions are equal.
func (d Decision) Equal(o Decision) bool {
	return d.Outcome == o.Outcome && d.Open == o.Open && d.Reason == o.Reason && slices.Equal(d.Policies, o.Policies) && slices.Equal(d.Scopes, o.Scopes)
}

// A Set is the compiled policies of one configuration. It is immutable but for its caches, and safe for
// concurrent use.
type Set struct {
	policies []*compiled
	byKind   [kinds]group
	entities cedar.EntityMap // of the configuration
	server   cedar.EntityUID
	groups   cedar.EntityType
	uses     uses
	known    sync.Map     // cached results of search, by the open conditions
	kept     atomic.Int64 // number of results of search

	failed sync.Map // names of policies for which OnFailure was called
	// OnFailure is called once per policy whose condition cannot be evaluated.
	OnFailure func(policy, err string)
}

// compiled is one policy.
type compiled struct {
	id     string // its name
	forbid bool
	tree   *ast.Policy
	policy *cedar.Policy
	scopes []string // the annotation @scopes of a permit: the scopes of a step-up

	// probe is a permit with the policy's scope and its conditions before the first one
	// that reads arguments.
	probe *cedar.Policy
	rest  ast.IsNode // the conjunction of the other conditions; nil: none
}

// group is the policies that may apply to one kind of entry.
type group struct {
	all     ordered
	forbids ordered
	stepUps []*compiled
	args    argUses // of all together
}

// ordered is a list of policies in a fixed order.
type ordered []*compiled

// exact and probing are the two forms of policies for cedar.Authorize: with all conditions, and without those
// on arguments.
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

// find returns the policy of a name; names are unique in a set.
func (o ordered) find(id cedar.PolicyID) *compiled {
	for _, c := range o {
		if c.id == string(id) {
			return c
		}
	}
	return nil
}

// Decide decides whether p may use e with these arguments, a JSON object or empty. A resource has
// no arguments.
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

// ReadsArguments reports whether decisions on entries of a kind can depend on arguments. If not,
// Decide is Possible.
func (s *Set) ReadsArguments(k Kind) bool { return k != Resource && !s.byKind[k].args.none() }

// ask decides for one set of scopes, those of p. The outcome is Allow or Deny.
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
