package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/runs"

	"github.com/vmcp-dev/vmcp/proxy/observe"

	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// A scriptedCall is one request of a client for a run of a scripted tool: a new run, or the one that its requestState
// or its idempotency key names. It leads the part of the run that it has begun, or waits for a part that another
// request leads, and responds by the state of the run:
//
//	ended                     the result
//	waiting                   a stateless client gets input_required; a client with a session is sent requests
//	sleeping                  a stateless client gets input_required without questions after runs.hold, while it has rounds to
//	                          spend; other requests stay open
//	in doubt                  a result that lists the calls, and what to do
//	stopped or acquired       the request waits for the process that resumes the run
//	by another process
//
// Requests of backends with sessions are asked while the part continues. A stateless client gets them as
// input_required, too; its next request has the answer and waits again.
type scriptedCall struct {
	p     *Proxy
	x     *exchange
	out   edge.FrameWriter // of the request
	entry *catalog.Entry

	id    string // of the run
	never bool   // the run is not kept
	keyed bool   // the request has an idempotency key
	began time.Time

	alive  <-chan time.Time // when the client is told that the run continues; nil: it has no progress token
	rounds int              // of input_required results that the client has had for this call
	traced json.RawMessage  // the trace of the part that has ended; nil if the client did not ask for it

	changed  <-chan struct{} // of the store, from before the run was read
	asking   map[string]bool // questions that were sent to the session during this request
	answered chan struct{}   // one of them was answered
	brought  map[string]bool // questions that this request answers
	mu       sync.Mutex
	refused  map[string]error // questions that the client has answered with an error; guarded by mu
	lost     error            // the client can no longer be asked; guarded by mu
}

// callScript runs a scripted tool for a client.
func (p *Proxy) callScript(ctx context.Context, x *exchange, e *catalog.Entry) (*backends.Response, error) {
	c := &scriptedCall{p: p, x: x, out: x.out, entry: e, began: time.Now(), asking: map[string]bool{}, brought: map[string]bool{}, answered: make(chan struct{}, 1), never: e.Script.Durable.When == "never", keyed: x.Key != nil}
	x.run = &clientRun{hold: c.hold}
	if x.Token != nil {
		alive := time.NewTicker(p.aliveEvery())
		defer alive.Stop()
		c.alive = alive.C
	}
	if x.Trace != "" && x.who.SeesTraces() {
		ctx = status.Start(ctx)
		x.traceAll = x.traceAll || x.who != nil // an admin
	}
	if state := x.Get(memberState); state != nil {
		return c.again(ctx, state)
	}
	key := ""
	if x.Key != nil {
		if key = jsonscan.Text(x.Key); !runs.ValidKey(key) || x.Key[0] != '"' {
			return nil, wire.Errorf(wire.InvalidParams, "params._meta: %s: want a string of 1 to 128 printable ASCII characters", runs.MetaKey)
		}
	}
	if !c.never && (key != "" || e.Script.Durable.When == "always") {
		return c.first(ctx, key)
	}
	run, settings := c.run(ctx, x.Get(arguments))
	part := p.runs.Begin(run, settings, c.never)
	c.id = part.ID
	resp, again, err := c.lead(ctx, part)
	if again {
		return c.awaitAnswer(ctx)
	}
	return resp, err
}

// run is a new run for this request, and its settings.
func (c *scriptedCall) run(ctx context.Context, args json.RawMessage) (r durable.Run, s runs.Settings) {
	t, x := c.entry.Script, c.x
	s = runs.Settings{
		Limits: t.Limits, Entry: t.Program.Function(), OnDoubt: t.Durable.OnDoubt, OnDisconnect: t.Durable.OnDisconnect, Isolated: t.Isolated, Whole: t.Whole(),
		Output: t.OutputSchema(), Can: x.client.Capabilities, Who: x.principalIn(ctx).Encode(), Profile: x.client.Profile, Stateless: x.client.Modern(), Audit: x.audit.run, Trace: observe.Traceparent(ctx),
	}
	r = durable.Run{
		Tool: t.Name, Principal: x.client.Principal, Trace: s.Trace, Program: runs.ProgramOf(t.Program), Args: wire.OrEmpty(args),
	}
	if t.Limits.Lifetime > 0 {
		r.Expires = time.Now().Add(t.Limits.Lifetime.Std())
	}
	return r, s
}

// first creates a run with a row, or finds the one with the same key.
func (c *scriptedCall) first(ctx context.Context, key string) (*backends.Response, error) {
	args, err := c.entry.Script.Arguments(c.x.Get(arguments))
	if err != nil {
		return c.answer(builtins.ErrorResult(c.p.secrets.Text(err.Error())), "", nil)
	}
	r, settings := c.run(ctx, jsonscan.Compact(args))
	r.Dedupe, r.Limits = key, settings.JSON()
	var isNew bool
	if c.id, isNew, err = c.p.runs.Start(ctx, r); err != nil {
		return nil, err
	}
	if isNew && c.entry.Script.Durable.When == "always" && c.x.client.Modern() {
		c.x.outcome = observe.Suspended
		return c.inputRequired(runs.Outcome{State: durable.Running})
	}
	return c.awaitAnswer(ctx)
}

// again resumes the run that a requestState names.
func (c *scriptedCall) again(ctx context.Context, state json.RawMessage) (*backends.Response, error) {
	kind, handle, ok := c.p.suspended.Open(state, c.x.binding())
	if !ok || kind == runs.Pending {
		return nil, runs.ErrState
	}
	id, rounds, _ := strings.Cut(handle, roundsAfter)
	c.id, c.never = id, kind == runs.Never
	c.rounds, _ = strconv.Atoi(rounds) // none in a state of an earlier version
	var err error
	jsonscan.Each(c.x.Get(responses), func(key, value []byte) bool {
		c.brought[string(key)] = true
		err = c.p.runs.Answer(ctx, c.id, string(key), jsonscan.Compact(value), c.never)
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return c.awaitAnswer(ctx)
}

// awaitAnswer waits for the run until there is a response.
func (c *scriptedCall) awaitAnswer(ctx context.Context) (resp *backends.Response, err error) {
	for {
		c.changed = c.p.runs.Changed(c.never)
		part, mine, at, err := c.p.runs.Join(ctx, c.id, c.never, c.toTell(), c.asks)
		var again bool
		switch {
		case err != nil:
			return nil, err
		case at != nil && at.State == durable.Running:
			resp, again, err = c.askElsewhere(ctx, *at)
		case at != nil:
			resp, again, err = c.respond(ctx, *at, nil)
		case mine:
			resp, again, err = c.lead(ctx, part)
		default:
			resp, again, err = c.wait(ctx, part)
		}
		if !again {
			return resp, err
		}
	}
}

// wait waits for a part that another request leads, or none. If its leader has answered its client with a question,
// this request becomes the leader.
func (c *scriptedCall) wait(ctx context.Context, part *runs.Part) (resp *backends.Response, again bool, err error) {
	if l := c.p.suspended.Leader(c.id); l != nil {
		if l.Attach(ctx, c.x.out) {
			c.x.audit.run = l.Run
		}
	}
	return c.attend(ctx, part, nil)
}

// lead executes a part for this request.
func (c *scriptedCall) lead(ctx context.Context, part *runs.Part) (resp *backends.Response, again bool, err error) {
	h, err := c.p.hosts.New(part, c.x, c.entry.Script)
	if err != nil {
		o := runs.Outcome{State: durable.Failed, Error: err.Error(), Result: builtins.ErrorResult(c.p.secrets.Text(err.Error()))}
		part.End(o)
		return c.respond(ctx, part.Outcome(), nil)
	}
	if part.Kept() {
		c.x.audit.run = h.Audit()
	}
	c.mu.Lock()
	h.Refuse(c.refused)
	c.refused = nil
	c.mu.Unlock()
	l := c.x.pendingCall(ctx)
	c.p.suspended.Lead(c.id, l)
	l.Start(ctx, func(ctx context.Context) (*backends.Response, error) {
		defer c.p.suspended.Ended(c.id)
		h.Execute(ctx)
		return nil, nil
	})
	return c.attend(ctx, part, h)
}

// attend waits until a part has ended, and meanwhile asks the client the questions of backends. h is the host of the
// part if this request leads it.
func (c *scriptedCall) attend(ctx context.Context, part *runs.Part, h *runs.Host) (resp *backends.Response, again bool, err error) {
	kept := c.untilKept(part)
	for {
		asked, more := part.Asking()
		if resp, err := c.askPending(ctx, part, asked); resp != nil || err != nil {
			return resp, false, err
		}
		select {
		case <-part.Ended():
			var traced json.RawMessage
			if h != nil {
				traced = h.Traced()
			}
			o := part.Outcome()
			open := part.Unanswered(ctx, o.Questions)
			if o.State == durable.Waiting && len(open) < len(o.Questions) { // some answers have arrived: it can be resumed
				return nil, true, nil
			}
			o.Questions = open
			return c.respond(ctx, o, traced)
		case <-kept:
			kept = nil
			edge.Prime(c.x.out)
		case <-c.alive:
			c.x.stillRunning()
		case <-more:
		case <-c.answered:
			c.refuse(part)
		case <-ctx.Done():
			c.detach(runs.Nobody{})
			part.Leave(context.Cause(ctx))
			return nil, false, context.Cause(ctx)
		}
	}
}

// untilKept is closed when the client could get the result after the loss of its connection; nil if it never can.
func (c *scriptedCall) untilKept(part *runs.Part) <-chan struct{} {
	if c.never || !c.p.outlived() {
		return nil
	}
	return part.Durable()
}

// askPending asks the questions for which calls wait. A stateless client gets them as the response.
func (c *scriptedCall) askPending(ctx context.Context, part *runs.Part, asked []script.Question) (*backends.Response, error) {
	asked = slices.DeleteFunc(asked, func(q script.Question) bool { return !c.asks(q) })
	switch {
	case len(asked) == 0:
		return nil, nil
	case !c.x.client.Modern():
		for _, q := range asked {
			c.ask(ctx, q)
		}
		return nil, nil
	}
	if asked = part.Unanswered(ctx, asked); len(asked) == 0 {
		return nil, nil
	}
	c.detach(nil)
	part.Detach()
	return c.inputRequired(runs.Outcome{State: durable.Running, Questions: asked})
}

// asks reports whether this request's client is to be asked a question.
func (c *scriptedCall) asks(q script.Question) bool {
	return !c.brought[q.Key] && !c.asking[q.Key] && c.x.client.Can(q.Method)
}

// askElsewhere asks a question for which a backend waits in another process.
func (c *scriptedCall) askElsewhere(ctx context.Context, o runs.Outcome) (resp *backends.Response, again bool, err error) {
	if c.x.client.Modern() {
		resp, err = c.inputRequired(o)
		return resp, false, err
	}
	for _, q := range o.Questions {
		c.ask(ctx, q)
	}
	return nil, true, nil
}

// detach redirects the frames of the call; nil queues them for the next request.
func (c *scriptedCall) detach(to edge.FrameWriter) {
	if l := c.p.suspended.Leader(c.id); l != nil && l.Writes(c.out) {
		l.Detach(to)
	}
}

// refuse passes the client's refusals to the calls that wait for answers.
func (c *scriptedCall) refuse(part *runs.Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, err := range c.refused {
		if part.Refuse(key, err) {
			delete(c.refused, key)
		}
	}
}

// resumePart executes a part without a request.
func (p *Proxy) resumePart(part *runs.Part) {
	r := part.Run()
	s, err := part.Settings()
	who, wrong := auth.Decode(s.Who)
	if err = errors.Join(err, wrong); err != nil {
		part.End(runs.Outcome{State: durable.Failed, Error: err.Error()})
		return
	}
	ctx := edge.WithPrincipal(context.Background(), who)
	params := new(jsonscan.Object).Text("name", r.Tool).Raw("arguments", r.Args).JSON()
	client := &edge.Client{Principal: r.Principal, Profile: s.Profile, Revision: wire.Rev2607, Capabilities: s.Can}
	x := newExchange(p, edge.Request{Client: client, Method: wire.ToolsCall, Params: params, Out: runs.Nobody{}})
	x.who, x.audit.run = p.whoIn(ctx, x), s.Audit
	h, err := p.hosts.New(part, x, nil)
	if err != nil {
		part.End(runs.Outcome{State: durable.Failed, Error: err.Error(), Result: builtins.ErrorResult(p.secrets.Text(err.Error()))})
		return
	}
	h.Execute(ctx)
}
