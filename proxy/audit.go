package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/audit"
	"github.com/vmcp-dev/vmcp/proxy/auth"

	"github.com/vmcp-dev/vmcp/proxy/observe"
)

// What the audit log records of a visit at the door. A call is recorded in two places: begun, before anything is done,
// if the audit is strict, and written, at its end. Package record has the vocabulary, the data and the log.

// passage is the audit's state of a call in progress.
type passage struct {
	id      string          // of its event; "" while nothing is recorded
	run     string          // id of the run that it is part of
	data    json.RawMessage // arguments, as the event has them
	bytesIn int64
}

// note prepares the audit event of a call.
func (v *visit) note(ctx context.Context) {
	l := v.p.record.Log()
	if l == nil {
		return
	}
	x := v.x
	x.audit = passage{id: audit.NewID(), bytesIn: int64(len(x.params)), data: v.p.record.Request(ctx, l, x.params, x.Get(arguments))}
	if x.script != nil {
		x.audit.run = x.parent.audit.run
	} else {
		x.audit.run = x.audit.id
	}
}

// begun writes, if the audit is strict, an event that the call is about to be made, and waits until it is on disk.
func (v *visit) begun(ctx context.Context) error {
	if !v.p.record.Log().Strict() {
		return nil
	}
	return v.p.record.Put(ctx, v.event(ctx, audit.Started, 0, nil))
}

// written writes the event of a call that has ended. An error says that the event is not on disk although the
// configuration requires that before the client gets its response.
func (v *visit) written(ctx context.Context, o observe.Outcome, took time.Duration, err error, result []byte) error {
	l := v.p.record.Log()
	if l == nil || v.x.audit.id == "" {
		return nil
	}
	e := v.event(ctx, outcome(o, err), took, err)
	e.Extra.Reason = reason(o)
	e.Extra.BytesOut = int64(len(result))
	if o == observe.Suspended {
		e.Extra.Run = v.x.audit.run
	}
	if result == nil {
		result = v.head
	}
	v.p.record.Respond(ctx, l, e, result)
	return v.p.record.Put(ctx, e)
}

// event is the audit event of a call.
func (v *visit) event(ctx context.Context, outcome string, took time.Duration, err error) *audit.Event {
	x := v.x
	e := &audit.Event{ID: x.audit.id, Type: memberType(x.method), Outcome: outcome, Data: x.audit.data}
	v.p.record.Asker(ctx, e, x.client)
	if x.script != nil {
		e.Type = audit.StepCompleted
		if err != nil || outcome == audit.ApplicationError {
			e.Type = audit.StepFailed
		}
		e.Extra.Parent, e.Extra.Step = x.parent.audit.id, display.ClipText(x.script.Options.Key, maxLine)
	}
	if e.Extra.Parent != "" || x.audit.run != x.audit.id || v.entry != nil && v.entry.Script != nil {
		e.Extra.Run = x.audit.run
	}
	e.Target.Method, e.Target.Type, e.Target.Name = x.method, kind(x.method), v.asked()
	if v.entry != nil {
		e.Target.Backend, e.Target.Original = "scripts", v.entry.Name
		if v.entry.Backend != nil {
			e.Target.Backend, e.Target.Original = v.entry.Backend.Name(), v.entry.Original
		}
	}
	e.Extra.Duration, e.Extra.BytesIn = took, x.audit.bytesIn
	e.Extra.Decision, e.Extra.Policy = x.decision.verdict.String(), x.decision.policy
	e.Extra.Code = code(err)
	return e
}

// asked is the name that the request has.
func (v *visit) asked() string {
	name := jsonscan.GetString(v.x.params, wire.MethodOf(v.x.method).Member)
	switch {
	case v.x.method == wire.ToolsCall:
		name = jsonscan.Text(v.x.Get(memberName))
	case v.x.method == wire.ResourcesRead:
		name = jsonscan.Text(v.x.Get(uri))
	}
	if v.entry == nil || v.entry.Name != name {
		name = v.p.secrets.Text(name)
	}
	return display.Bytes(name, maxName)
}

// auditAdmit writes the event of a request that is not a call, at its end; the error is as that of written.
func (p *Proxy) auditAdmit(ctx context.Context, r request, o observe.Outcome, took time.Duration, failed error) error {
	l := p.record.Log()
	if l == nil {
		return nil
	}
	e := &audit.Event{Type: memberType(r.method), Outcome: outcome(o, failed)}
	if !l.Wants(e.Type) {
		return nil
	}
	p.record.Asker(ctx, e, r.client)
	e.Target.Method = r.method
	if len(e.Target.Method) > maxName || e.Type == audit.Request && methods[r.method].serve == nil {
		e.Target.Method = display.Bytes(p.secrets.Text(r.method), maxName)
	}
	e.Extra.Duration, e.Extra.Reason, e.Extra.Code = took, reason(o), code(failed)
	return p.record.Put(ctx, e)
}

// headOf is the beginning of a streamed result, if the audit records it.
func (v *visit) headOf(resp *backends.Response) []byte {
	if !v.p.record.Log().Responses() {
		return nil
	}
	head := resp.Head()
	return bytes.Clone(head[:min(len(head), maxHead)])
}

// within is the context for serving an HTTP request.
func (p *Proxy) within(r *http.Request, who *auth.Principal) context.Context {
	ctx := p.outward.Load().Context(r, who)
	if user := outwardOf(ctx).User; user != nil && user.Token != "" && p.backends.Arrive(ctx, user) {
		p.rebuild() // including backends whose start waited for a first caller's token
	}
	return p.record.Within(p.spans.Within(ctx, r.Header), r)
}

// ReopenAudit reopens the audit file under its configured name, after log rotation has renamed the previous one.
func (p *Proxy) ReopenAudit() { p.record.Reopen() }
