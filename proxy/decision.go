package proxy

import (
	"context"
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/policy"

	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// A decision is what was decided about a request at the door, before anything was done; the zero value if nothing
// decides. The audit records it.
type decision struct {
	verdict verdict
	policy  string // names of the policies or rules that decided, separated by commas
}

// A verdict is the result of a decision.
type verdict uint8

const (
	notAsked verdict = iota // no decision was needed
	allowed
	denied  // also where the answer is that nothing has the name, or that the token needs more scopes
	overdue // allowed by policy, but above the quota
)

var verdictNames = [...]string{"", "allow", "deny", "quota"}

func (v verdict) String() string { return verdictNames[v] }

// principalIn is the principal that makes a request of ctx; nil is anonymous. A resumed call belongs to the principal
// of its last request.
func (x *exchange) principalIn(ctx context.Context) *auth.Principal {
	if x.pending != nil {
		return x.pending.Principal()
	}
	return edge.PrincipalOf(ctx)
}

// whoIn is the principal of a request as the current policies identify it; nil without policies.
func (p *Proxy) whoIn(ctx context.Context, x *exchange) *Who {
	rules := p.rules.Load()
	if rules == nil {
		return nil
	}
	return rules.Who(x.principalIn(ctx), x.client.Profile)
}

// decided is called when the policies may have changed: clients whose lists differ are notified, and subscriptions to
// resources that may no longer be read get no more updates.
func (p *Proxy) decided(before *AccessRules) {
	if before == nil && p.rules.Load() == nil {
		return
	}
	for _, l := range wire.Lists {
		p.subscriptions.ListChanged("", l.Changed)
	}
	p.spawn(p.subscriptions.Recheck)
}

// viewOfSession is what a session sees of its current catalog.
func (p *Proxy) viewOfSession(s *edge.Session) *catalog.View {
	return peerOf(s).who().View(p.catalogOfSession(s), s.Client.Profile)
}

// view is what the requester sees of a catalog. Scripts are not limited by profiles.
func (x *exchange) view(c *catalog.Catalog) *catalog.View {
	if x.script != nil {
		return x.who.View(c, "")
	}
	return x.who.View(c, x.client.Profile)
}

// find finds an entry that the requester sees. One that exists but is invisible to the requester is noted for the
// audit, and the result is as if it did not exist.
func (x *exchange) find(c *catalog.Catalog, r catalog.Ref) *catalog.Entry {
	e := x.view(c).Find(r)
	if e == nil && x.who != nil && x.who.View(c, "").Find(r) == nil {
		x.unseen = c.Find(r)
	}
	return e
}

// decide applies the policies to the call. missing is the error of finding the entry.
func (v *visit) decide(missing error) error {
	x := v.x
	switch {
	case x.who == nil:
		return missing
	case missing != nil && x.unseen == nil:
		return missing
	case missing != nil:
		v.entry = x.unseen
		v.judged(x.unseen.Kind, policy.Decision{Outcome: policy.Invisible})
		return missing
	case x.script != nil && x.who.ScriptsAreOwners():
		x.decision = decision{allowed, "scripts: owner"}
		return nil
	}
	e := v.entry
	if x.task != nil {
		e = x.task
	}
	d := v.ask(e)
	v.judged(e.Kind, d)
	return v.p.denial(x, d)
}

// ask decides about an entry, with the arguments if the entry gets any.
func (v *visit) ask(e *catalog.Entry) policy.Decision {
	x, c := v.x, v.p.catalogOf(v.x.client)
	switch x.method {
	case wire.ToolsCall, wire.PromptsGet:
		return x.who.Decide(c, e, x.Get(arguments))
	case wire.ResourcesRead, wire.Subscribe:
		return x.who.Decide(c, e, nil)
	}
	return x.who.View(c, "").Decision(e) // a completion, or a task whose call was decided before
}

// judged notes a decision for the audit and the metrics.
func (v *visit) judged(kind policy.Kind, d policy.Decision) {
	v.x.decision = decision{denied, strings.Join(d.Policies, ",")}
	if d.Outcome == policy.Allow {
		v.x.decision.verdict = allowed
	}
	v.p.metrics.Decided(kind, d.Outcome)
}

// errDenied refuses what a policy denies. It does not mention the arguments.
var errDenied = &edge.Refusal{Err: wire.Errorf(wire.Denied, "call denied by authorization policy"), Status: http.StatusForbidden}

// denial is the error for a decision; nil if it allows. A script gets a ToolError, which it can catch.
func (p *Proxy) denial(x *exchange, d policy.Decision) error {
	switch {
	case d.Outcome == policy.Allow:
		return nil
	case x.script != nil && d.Outcome == policy.StepUp:
		return &builtins.ToolError{Kind: builtins.Denied, Msg: errDenied.Error() + ": the caller's token needs the scopes " + strings.Join(d.Scopes, " ")}
	case x.script != nil:
		return &builtins.ToolError{Kind: builtins.Denied, Msg: errDenied.Error()}
	case d.Outcome == policy.StepUp:
		return p.edge.StepUp(d.Scopes, x.client.Profile)
	case d.Outcome == policy.Invisible && x.task != nil:
		return unknownTask(x)
	}
	return errDenied
}
