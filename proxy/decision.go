package proxy

import (
	"context"
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/policy"
	"github.com/vmcp-dev/vmcp/proxy/access"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/members"
)

// A decision is what was decided about somebody's passage of the door, before anything was
// done. Where nothing decides, it is the zero decision. The audit writes it down.
type decision struct {
	verdict verdict
	policy  string // the names of the policies or rules that decided, with commas between them
}

// A verdict is what a decision came to.
type verdict uint8

const (
	notAsked verdict = iota // nothing had to decide
	allowed
	denied  // also what the asker is told is not there, and what more scopes would allow
	overdue // allowed, and more often than the quota has it
)

var verdictNames = [...]string{"", "allow", "deny", "quota"}

func (v verdict) String() string { return verdictNames[v] }

// Anonymous is the subject of who comes in without authentication.
const Anonymous = access.Anonymous

// principalIn is who makes a request of ctx; nil is anonymous. A call that waited for an answer goes
// on for who made its last request.
func (x *exchange) principalIn(ctx context.Context) *auth.Principal {
	if x.live != nil {
		return x.live.Principal()
	}
	return edge.PrincipalOf(ctx)
}

// whoIn is who makes a request of ctx, as the policies in force know it; nil while there are none.
func (p *Proxy) whoIn(ctx context.Context, x *exchange) *access.Who {
	rules := p.rules.Load()
	if rules == nil {
		return nil
	}
	return rules.Who(x.principalIn(ctx), x.client.Profile)
}

// decided makes known that policies may have changed: who sees something else now is told, and who
// may not read what they follow is told of it no more.
func (p *Proxy) decided(before *access.Rules) {
	if before == nil && p.rules.Load() == nil {
		return
	}
	for _, l := range wire.Lists {
		p.subscriptions.ListChanged("", l.Changed)
	}
	p.spawn(p.subscriptions.Recheck)
}

// viewOfSession is what a session sees of its present catalog.
func (p *Proxy) viewOfSession(s *edge.Session) *catalog.View {
	return peerOf(s).who().View(p.catalogOfSession(s), s.Client.Profile)
}

// view is what there is of a catalog for who makes the request. Scripts reach what no profile shows.
func (x *exchange) view(c *catalog.Catalog) *catalog.View {
	if x.script != nil {
		return x.who.View(c, "")
	}
	return x.who.View(c, x.client.Profile)
}

// find finds what is there for who makes the request. What is there and not for them is noted
// for the audit, and looked for on as if it were not.
func (x *exchange) find(c *catalog.Catalog, r catalog.Ref) *catalog.Entry {
	e := x.view(c).Find(r)
	if e == nil && x.who != nil && x.who.View(c, "").Find(r) == nil {
		x.unseen = c.Find(r)
	}
	return e
}

// decide asks the policies in force about the call. missing is why nothing was found to call.
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

// ask asks about an entry, with the arguments where there are any that the entry gets.
func (v *visit) ask(e *catalog.Entry) policy.Decision {
	x, c := v.x, v.p.catalogOf(v.x.client)
	switch x.method {
	case wire.ToolsCall, wire.PromptsGet:
		return x.who.Decide(c, e, x.Get(members.Arguments))
	case wire.ResourcesRead, wire.Subscribe:
		return x.who.Decide(c, e, nil)
	}
	return x.who.View(c, "").Decision(e) // a completion, or a task whose call was decided
}

// judged notes a decision for the audit and the metrics.
func (v *visit) judged(kind policy.Kind, d policy.Decision) {
	v.x.decision = decision{denied, strings.Join(d.Policies, ",")}
	if d.Outcome == policy.Allow {
		v.x.decision.verdict = allowed
	}
	v.p.metrics.Decided(kind, d.Outcome)
}

// errDenied refuses what a policy denies. It says nothing of the arguments that it was denied for.
var errDenied = &edge.Refusal{Err: wire.Errorf(wire.Denied, "call denied by authorization policy"), Status: http.StatusForbidden}

// denial is the error that a decision comes to; nil if it allows. A script gets one to catch.
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
