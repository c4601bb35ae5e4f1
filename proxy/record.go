package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/audit"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// This part of the package writes the audit events of requests at the door.
//
// Every request makes one event, whatever its outcome, and so does one that the edge refuses for its Host, Origin,
// credential or session. If the audit is strict, an event is on disk before a call is made, and another before it is
// answered. Unknown names and data are recorded as the client sent them, without the secrets of the configuration.

// recordOptions configure a Recorder.
type recordOptions struct {
	Server  string    // name of the endpoint, if the process has several
	Out     io.Writer // output of an audit log without a file
	Log     *slog.Logger
	Secrets *secret.Redactor
	Address func(*http.Request) string // remote address of a request, behind trusted proxies
}

// A recorder writes the audit log of the current configuration.
type recorder struct {
	o         recordOptions
	log       atomic.Pointer[log] // nil: no audit
	unwritten atomic.Uint64
}

// newRecord makes a Recorder without an audit log; Use sets one.
func newRecord(o recordOptions) *recorder { return &recorder{o: o} }

// log is the audit log of one configuration. A nil Log records nothing.
type log struct {
	*audit.Log
	cfg config.Audit
}

// Log is the current audit log; nil for none.
func (r *recorder) Log() *log { return r.log.Load() }

// Strict reports whether calls wait until their events are on disk.
func (l *log) Strict() bool { return l != nil && l.cfg.Mode == "strict" }

// Responses reports whether events contain the results of calls.
func (l *log) Responses() bool { return l != nil && l.cfg.IncludeResponseData }

// wants reports whether events of a type are recorded.
func (l *log) wants(kind string) bool { return l != nil && l.Log.Wants(kind) }

const (
	// maxName bounds a name in an event, in bytes.
	maxName = 256
	// commitWithin is how long a call waits for its event to be on disk.
	commitWithin = 10 * time.Second
)

// Open opens the audit log of a configuration, or returns the current one if nothing has changed.
func (r *recorder) Open(cfg *config.Config) (*log, error) {
	a, old := cfg.Audit, r.log.Load()
	if !a.Enabled {
		return nil, nil
	}
	if old != nil && reflect.DeepEqual(old.cfg, a) {
		return old, nil
	}
	l, err := audit.Open(audit.Options{
		File: a.LogFile, Out: r.o.Out, Size: int64(a.Rotate.Size), Keep: a.Rotate.Keep, Component: a.Component,
		Only: a.EventTypes, Not: a.ExcludeEventTypes, Dropped: &r.unwritten, Log: r.o.Log,
	})
	if err != nil {
		return nil, errors.New("audit.logFile: " + err.Error())
	}
	return &log{l, a}, nil
}

// Use makes l the current log, after the events queued in the previous one are written.
func (r *recorder) Use(l *log) {
	if old := r.log.Swap(l); old != nil && old != l {
		r.close(old)
	}
}

// Discard closes a log of a configuration that was not applied.
func (r *recorder) Discard(l *log) {
	if l != r.log.Load() {
		r.close(l)
	}
}

// Close writes the queued events.
func (r *recorder) Close() { r.close(r.log.Load()) }

func (r *recorder) close(l *log) {
	if l == nil {
		return
	}
	if err := l.Close(); err != nil {
		r.o.Log.Error("audit", "err", err)
	}
}

// Reopen reopens the audit file under its configured name, after log rotation has renamed the previous one.
func (r *recorder) Reopen() {
	if l := r.log.Load(); l != nil {
		l.Reopen()
	}
}

// write queues an event in the current log. A log that was replaced meanwhile refuses it.
func (r *recorder) write(e *audit.Event) {
	e.Extra.Server = r.o.Server
	for l := r.log.Load(); l != nil; l = r.log.Load() {
		if !errors.Is(l.Append(e), audit.ErrClosed) || r.log.Load() == l {
			return
		}
	}
}

// Put queues an event. If the audit is strict, it waits until the event is on disk; after an error nothing may be done
// or answered.
func (r *recorder) Put(ctx context.Context, e *audit.Event) error {
	if r.log.Load().Strict() {
		return r.commit(ctx, e)
	}
	r.write(e)
	return nil
}

func (r *recorder) commit(ctx context.Context, e *audit.Event) error {
	e.Extra.Server = r.o.Server
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), commitWithin)
	defer done()
	for l := r.log.Load(); l != nil; l = r.log.Load() {
		err := l.Commit(ctx, e)
		if errors.Is(err, audit.ErrClosed) && r.log.Load() != l {
			continue
		}
		if err != nil {
			r.o.Log.Error("the audit log cannot be written, and calls are refused without it (audit.mode: strict)", "err", err)
			return errUnwritten
		}
		return nil
	}
	return nil
}

// errUnwritten is a refusal with HTTP status 503 for clients of every revision.
var errUnwritten = &edge.Refusal{
	Err:    wire.Errorf(wire.Busy, "the audit log cannot be written, and calls are refused without it (audit.mode: strict); try again in a moment"),
	Status: http.StatusServiceUnavailable,
}

// Unwritten is the number of events that could not be written.
func (r *recorder) Unwritten() uint64 { return r.unwritten.Load() }

// Refused records a request that the edge refused.
func (r *recorder) Refused(req *http.Request, status int, reason string) {
	if !r.log.Load().wants(audit.HTTPRequest) {
		return
	}
	e := &audit.Event{Type: audit.HTTPRequest, Outcome: audit.Denied}
	if status >= http.StatusInternalServerError {
		e.Outcome = audit.Failure
	}
	e.Source = r.source(req)
	e.Target.Endpoint, e.Target.Method = req.URL.Path, req.Method
	if req.URL.Path != "/mcp" { // the path is the client's text
		e.Target.Endpoint = display.Bytes(r.o.Secrets.Text(req.URL.Path), maxName)
	}
	e.Target.Method = display.Bytes(e.Target.Method, 32)
	e.Extra.Transport, e.Extra.Code, e.Extra.Reason = "streamable-http", status, reason
	if p := edge.PrincipalOf(req.Context()); p != nil {
		who(e, p)
	}
	r.write(e)
}

// Applied records that a configuration was applied.
func (r *recorder) Applied(cfg *config.Config) {
	if r.log.Load() == nil {
		return
	}
	names := []string{}
	for _, b := range cfg.Backends {
		names = append(names, b.Name)
	}
	list, _ := json.Marshal(names) // cannot fail: strings
	r.write(&audit.Event{
		Type: audit.ConfigApplied, Outcome: audit.Success, Source: audit.Source{Type: "local", Value: "configuration"},
		Target: audit.Target{Type: "configuration", Name: cfg.Name}, Data: jsonscan.Set(nil, "backends", list),
	})
}

// Unpinned records a definition, or instructions, that differ from their pin.
func (r *recorder) Unpinned(v *catalog.Violation) {
	if r.log.Load() == nil {
		return
	}
	e := &audit.Event{Type: audit.PinViolation, Outcome: audit.Success, Source: audit.Source{Type: "local", Value: "backend"}}
	if v.Withheld {
		e.Outcome = audit.Denied
	}
	e.Target = audit.Target{Type: string(v.Name.Kind), Backend: v.Name.Backend, Original: display.Bytes(r.o.Secrets.Text(v.Name.Own), maxName)}
	e.Extra.Reason = v.Reason
	e.Data = new(jsonscan.Object).Text("pinned", v.Pinned).Text("offered", v.Offered).JSON()
	r.write(e)
}
