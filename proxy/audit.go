package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/audit"
	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/clip"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
)

// What was done.
//
// Every passage of the door leaves one line, whatever became of it, and so does a request that
// the edge refuses for its Host, Origin, credential or session. Two places write calls down:
// begun, before anything is done, where a line has to be on disk by then, and ended. What a
// line says of a name that nobody offers, and of data, is what the client sent, without the
// secrets of the configuration.

// auditLog is the audit of a configuration.
type auditLog struct {
	*audit.Log
	cfg config.Audit
}

// strict reports whether calls wait for their lines. A nil log has none.
func (l *auditLog) strict() bool { return l != nil && l.cfg.Mode == "strict" }

const (
	// auditName bounds a name in a line, in bytes.
	auditName = 256
	// auditWithin is how long a call waits for its line to be on disk.
	auditWithin = 10 * time.Second
)

// openAudit makes what a configuration wants, or keeps the log there is.
func (p *Proxy) openAudit(cfg *config.Config) (*auditLog, error) {
	a, old := cfg.Audit, p.audit.Load()
	if !a.Enabled {
		return nil, nil
	}
	if old != nil && reflect.DeepEqual(old.cfg, a) {
		return old, nil
	}
	l, err := audit.Open(audit.Options{
		File: a.LogFile, Out: p.options.AuditOut, Size: int64(a.Rotate.Size), Keep: a.Rotate.Keep, Component: a.Component,
		Only: a.EventTypes, Not: a.ExcludeEventTypes, Dropped: &p.unwritten, Log: p.log,
	})
	if err != nil {
		return nil, errors.New("audit.logFile: " + err.Error())
	}
	return &auditLog{l, a}, nil
}

// useAudit makes l the log. What was queued in the one before is written.
func (p *Proxy) useAudit(l *auditLog) {
	if old := p.audit.Swap(l); old != nil && old != l {
		p.closeAudit(old)
	}
}

func (p *Proxy) closeAudit(l *auditLog) {
	if l == nil {
		return
	}
	if err := l.Close(); err != nil {
		p.log.Error("audit", "err", err)
	}
}

// ReopenAudit makes the audit go on in the file that has the configured name by now: whoever
// rotates files moved the one before away.
func (p *Proxy) ReopenAudit() {
	if l := p.audit.Load(); l != nil {
		l.Reopen()
	}
}

// write queues an event in the log that there is now. One that was replaced meanwhile takes none.
func (p *Proxy) write(e *audit.Event) {
	for l := p.audit.Load(); l != nil; l = p.audit.Load() {
		if !errors.Is(l.Append(e), audit.ErrClosed) || p.audit.Load() == l {
			return
		}
	}
}

// commit has an event on disk, or says that the call may not be made or answered without.
func (p *Proxy) commit(ctx context.Context, e *audit.Event) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), auditWithin)
	defer done()
	for l := p.audit.Load(); l != nil; l = p.audit.Load() {
		err := l.Commit(ctx, e)
		if errors.Is(err, audit.ErrClosed) && p.audit.Load() != l {
			continue
		}
		if err != nil {
			p.log.Error("audit not written, and nothing is done without (audit.mode: strict)", "err", err)
			return errNoAudit
		}
		return nil
	}
	return nil
}

var errNoAudit = wire.Errorf(wire.Busy, "the audit log cannot be written, and nothing is done without (audit.mode: strict); try again in a moment")

// passage is what the audit knows of a call before it is over.
type passage struct {
	id      string          // of its line; "" while none is written
	run     string          // the run that it is part of
	data    json.RawMessage // what the line says of the arguments
	bytesIn int64
}

// auditTypes are the types of lines by method.
var auditTypes = map[string]string{
	wire.ToolsCall: audit.ToolCall, wire.ResourcesRead: audit.ResourceRead, wire.PromptsGet: audit.PromptGet,
	wire.ToolsList: audit.ToolsList, wire.ResourcesList: audit.ResourcesList, wire.TemplatesList: audit.ResourcesList,
	wire.PromptsList: audit.PromptsList, wire.Initialize: audit.Initialize, wire.Complete: audit.Completion,
	wire.Ping: audit.Ping, wire.SetLevel: audit.Logging,
	wire.Initialized: audit.Notification, wire.Cancelled: audit.Notification, wire.Progress: audit.Notification, wire.RootsChanged: audit.Notification,
}

func auditType(method string) string {
	if t := auditTypes[method]; t != "" {
		return t
	}
	if strings.HasPrefix(method, "notifications/") {
		return audit.Notification
	}
	return audit.Request
}

// auditKind is what a call of that method calls.
func auditKind(method string) string {
	switch method {
	case wire.ToolsCall:
		return "tool"
	case wire.PromptsGet:
		return "prompt"
	case wire.ResourcesRead, wire.Subscribe, wire.Unsubscribe:
		return "resource"
	case wire.TasksGet, wire.TasksUpdate, wire.TasksCancel, wire.TasksResult:
		return "task"
	}
	return ""
}

// note begins what the audit knows of a call.
func (v *visit) note(ctx context.Context) {
	l := v.p.audit.Load()
	if l == nil {
		return
	}
	x := v.x
	x.audit = passage{id: audit.NewID(), bytesIn: int64(len(x.params)), data: v.p.auditRequest(ctx, l, x)}
	if x.script != nil {
		x.audit.run = x.script.x.audit.run
	} else {
		x.audit.run = x.audit.id
	}
}

// begun has a line on disk that says that the call is about to be made, where the audit is strict.
func (v *visit) begun(ctx context.Context) error {
	if !v.p.audit.Load().strict() {
		return nil
	}
	return v.p.commit(ctx, v.event(ctx, audit.Started, 0, nil))
}

// written writes the line of a call that is over. An error says that it is not on disk, where
// it has to be before somebody is answered.
func (v *visit) written(ctx context.Context, o outcome.Outcome, took time.Duration, err error, result []byte) error {
	l := v.p.audit.Load()
	if l == nil || v.x.audit.id == "" {
		return nil
	}
	e := v.event(ctx, auditOutcome(o, err), took, err)
	e.Extra.Reason = auditReason(o)
	e.Extra.BytesOut = int64(len(result))
	if o == outcome.Suspended {
		e.Extra.Run = v.x.audit.run
	}
	if result == nil {
		result = v.head
	}
	if l.cfg.IncludeResponseData && result != nil {
		e.Data = jsonscan.Set(e.Data, "response", v.p.auditData(ctx, result, l.cfg.MaxDataSize))
	}
	if l.strict() {
		return v.p.commit(ctx, e)
	}
	v.p.write(e)
	return nil
}

// event is the line of a call.
func (v *visit) event(ctx context.Context, outcome string, took time.Duration, err error) *audit.Event {
	x := v.x
	e := &audit.Event{ID: x.audit.id, Type: auditType(x.method), Outcome: outcome, Data: x.audit.data}
	v.p.auditAsker(ctx, e, x.client)
	if x.script != nil {
		e.Type = audit.StepCompleted
		if err != nil || outcome == audit.ApplicationError {
			e.Type = audit.StepFailed
		}
		e.Extra.Parent, e.Extra.Step = x.script.x.audit.id, clip.Text(x.options.Key, maxLine)
	}
	if e.Extra.Parent != "" || x.audit.run != x.audit.id || v.entry != nil && v.entry.Script != nil {
		e.Extra.Run = x.audit.run
	}
	e.Target.Method, e.Target.Type, e.Target.Name = x.method, auditKind(x.method), v.asked()
	if v.entry != nil {
		e.Target.Backend, e.Target.Original = "scripts", v.entry.Name
		if v.entry.Backend != nil {
			e.Target.Backend, e.Target.Original = v.entry.Backend.Name(), v.entry.Original
		}
	}
	e.Extra.Duration, e.Extra.BytesIn = took, x.audit.bytesIn
	e.Extra.Decision, e.Extra.Policy = x.decision.verdict.String(), x.decision.policy
	e.Extra.Code = auditCode(err)
	return e
}

// asked is the name that was asked for.
func (v *visit) asked() string {
	name := jsonscan.GetString(v.x.params, wire.MethodOf(v.x.method).Member)
	switch {
	case v.x.method == wire.ToolsCall:
		name = jsonscan.Text(v.x.get(memberName))
	case v.x.method == wire.ResourcesRead:
		name = jsonscan.Text(v.x.get(memberURI))
	}
	if v.entry == nil || v.entry.Name != name {
		name = v.p.secrets.Text(name)
	}
	return clip.Bytes(name, auditName)
}

// auditAdmit writes the line of what was no call and is over; the error is that of written.
func (p *Proxy) auditAdmit(ctx context.Context, r request, o outcome.Outcome, took time.Duration, failed error) error {
	l := p.audit.Load()
	if l == nil {
		return nil
	}
	e := &audit.Event{Type: auditType(r.method), Outcome: auditOutcome(o, failed)}
	if !l.Wants(e.Type) {
		return nil
	}
	p.auditAsker(ctx, e, r.client)
	e.Target.Method = r.method
	if len(e.Target.Method) > auditName || e.Type == audit.Request && methods[r.method].serve == nil {
		e.Target.Method = clip.Bytes(p.secrets.Text(r.method), auditName)
	}
	e.Extra.Duration, e.Extra.Reason, e.Extra.Code = took, auditReason(o), auditCode(failed)
	if l.strict() {
		return p.commit(ctx, e)
	}
	p.write(e)
	return nil
}

// auditRefused writes the line of a request that the edge refused.
func (p *Proxy) auditRefused(r *http.Request, status int, reason string) {
	l := p.audit.Load()
	if !l.wants(audit.HTTPRequest) {
		return
	}
	e := &audit.Event{Type: audit.HTTPRequest, Outcome: audit.Denied}
	if status >= http.StatusInternalServerError {
		e.Outcome = audit.Failure
	}
	e.Source = p.auditSource(r)
	e.Target.Endpoint, e.Target.Method = r.URL.Path, r.Method
	if r.URL.Path != "/mcp" { // anything may be asked for
		e.Target.Endpoint = clip.Bytes(p.secrets.Text(r.URL.Path), auditName)
	}
	e.Target.Method = clip.Bytes(e.Target.Method, 32)
	e.Extra.Transport, e.Extra.Code, e.Extra.Reason = "streamable-http", status, reason
	if who := edge.PrincipalOf(r.Context()); who != nil {
		p.auditWho(e, who)
	}
	p.write(e)
}

func (l *auditLog) wants(kind string) bool { return l != nil && l.Wants(kind) }

// auditApplied writes the line of a configuration that is in force.
func (p *Proxy) auditApplied(cfg *config.Config) {
	if p.audit.Load() == nil {
		return
	}
	names := []string{}
	for _, b := range cfg.Backends {
		names = append(names, b.Name)
	}
	list, _ := json.Marshal(names) // texts
	p.write(&audit.Event{
		Type: audit.ConfigApplied, Outcome: audit.Success, Source: audit.Source{Type: "local", Value: "configuration"},
		Target: audit.Target{Type: "configuration", Name: cfg.Name}, Data: jsonscan.Set(nil, "backends", list),
	})
}

// auditAsker writes who asks, from where.
func (p *Proxy) auditAsker(ctx context.Context, e *audit.Event, c *edge.Client) {
	if r := requestIn(ctx); r != nil {
		e.Source = p.auditSource(r)
		e.Target.Endpoint, e.Extra.Transport = "/mcp", "streamable-http"
	} else {
		e.Source = audit.Source{Type: "local", Value: "stdio"}
		e.Target.Endpoint, e.Extra.Transport = "stdio", "stdio"
	}
	if s := c.Session; s != nil && len(s.ID) >= 6 {
		e.Extra.Session = s.ID[:6]
	}
	p.auditWho(e, edge.PrincipalOf(ctx))
	if len(c.Info) > 0 {
		e.Subjects.ClientName = clip.Bytes(jsonscan.GetString(c.Info, "name"), auditName)
		e.Subjects.ClientVersion = clip.Bytes(jsonscan.GetString(c.Info, "version"), auditName)
	}
}

func (p *Proxy) auditWho(e *audit.Event, who *auth.Principal) {
	if who == nil {
		e.Subjects.UserID = "anonymous"
		return
	}
	e.Subjects.UserID, e.Subjects.Issuer = clip.Bytes(who.Subject, auditName), clip.Bytes(who.Issuer, auditName)
	for _, claim := range [...]string{"name", "preferred_username", "email"} {
		if text, ok := who.Claims[claim].(string); ok && text != "" {
			e.Subjects.User = clip.Bytes(text, auditName)
			break
		}
	}
}

// auditSource is where a request comes from: the client behind the proxies that are trusted.
func (p *Proxy) auditSource(r *http.Request) audit.Source {
	return audit.Source{Type: "network", Value: p.edge.AddressOf(r), UserAgent: clip.Bytes(r.UserAgent(), auditName)}
}

// requestKey is the key of the *http.Request that a context belongs to, while an audit is kept.
type requestKey struct{}

// requestIn is the request of HTTP that ctx belongs to; nil on stdio.
func requestIn(ctx context.Context) *http.Request {
	r, _ := ctx.Value(requestKey{}).(*http.Request)
	return r
}

// within is the context in which a request is served.
func (p *Proxy) within(r *http.Request, who *auth.Principal) context.Context {
	ctx := p.outwardContext(r, who)
	if p.audit.Load() != nil {
		ctx = context.WithValue(ctx, requestKey{}, r)
	}
	return ctx
}

// auditRequest is what the audit says of a call's arguments: as much as the configuration wants.
func (p *Proxy) auditRequest(ctx context.Context, l *auditLog, x *exchange) json.RawMessage {
	arguments := x.get(memberArguments)
	switch {
	case l.cfg.IncludeRequestData:
		return jsonscan.Set(nil, "request", p.auditData(ctx, x.params, l.cfg.MaxDataSize))
	case arguments == nil, l.cfg.Arguments == "none", l.cfg.Arguments == "":
		return nil
	case l.cfg.Arguments == "hash":
		sum := sha256.Sum256(jsonscan.Compact(arguments))
		return jsonscan.Set(nil, "arguments", jsonscan.Quote("sha256:"+hex.EncodeToString(sum[:])))
	}
	names, size := []string{}, 0
	jsonscan.Each(arguments, func(key, _ []byte) bool {
		name := clip.Bytes(p.secrets.Text(string(key)), auditName)
		size += len(name)
		names = append(names, name)
		return size < l.cfg.MaxDataSize
	})
	list, _ := json.Marshal(names) // texts
	return jsonscan.Set(nil, "arguments", list)
}

// auditData is a JSON value without the secrets of the configuration. What is longer than most
// bytes is the beginning of its text.
func (p *Proxy) auditData(ctx context.Context, value []byte, most int) json.RawMessage {
	fits, all := len(value) <= most, len(value) <= most+auditMargin
	value = value[:min(len(value), most+auditMargin)]
	if r := requestIn(ctx); r != nil { // who sends its credential around does not get it written down
		if token := bearerOf(r); len(token) >= secret.Shortest {
			value = bytes.ReplaceAll(value, []byte(token), []byte(secret.Mask))
		}
	}
	if fits && jsonscan.Valid(value) {
		return jsonscan.Compact(p.secrets.JSON(value))
	}
	var ready string
	if all {
		ready = p.secrets.Text(string(value))
	} else {
		ready, _ = p.secrets.Pieces(string(value)) // a secret that stands across the end is not in it
	}
	return jsonscan.Quote(strings.ToValidUTF8(clip.Bytes(ready, most), "") + clip.Mark)
}

const (
	// auditMargin is how much more than what is written is searched for secrets.
	auditMargin = 16 << 10
	// maxAuditHead bounds what is kept of a result that streams until it is over.
	maxAuditHead = 64 << 10
)

// auditOutcome is an outcome in the words of the audit.
func auditOutcome(o outcome.Outcome, err error) string {
	switch o {
	case outcome.OK, outcome.Suspended:
		return audit.Success
	case outcome.ToolError:
		return audit.ApplicationError
	case outcome.Denied:
		return audit.Denied
	}
	switch auditCode(err) {
	case wire.InvalidParams, wire.InvalidRequest, wire.ParseError, wire.MethodNotFound, wire.ResourceNotFound, wire.UnsupportedVersion, wire.MissingCapability, wire.HeaderMismatch:
		return audit.Error
	case wire.Denied, wire.TooMany:
		return audit.Denied
	}
	return audit.Failure
}

// auditReason tells outcomes apart that the audit has one word for.
func auditReason(o outcome.Outcome) string {
	switch o {
	case outcome.Suspended, outcome.Timeout, outcome.Cancelled, outcome.Limit:
		return o.String()
	}
	return ""
}

// auditCode is the JSON-RPC code of an error, 0 for none.
func auditCode(err error) int {
	var rpc *wire.Error
	if errors.As(err, &rpc) {
		return rpc.Code
	}
	return 0
}

// headOf is the beginning of a result that streams, if the audit wants it.
func (v *visit) headOf(resp *backends.Response) []byte {
	if l := v.p.audit.Load(); l == nil || !l.cfg.IncludeResponseData {
		return nil
	}
	head := resp.Head()
	return bytes.Clone(head[:min(len(head), maxAuditHead)])
}
