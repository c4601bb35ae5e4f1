// Package record writes down what passes the door, in lines of the audit.
//
// Every passage leaves one line, whatever became of it, and so does a request that the edge
// refuses for its Host, Origin, credential or session. Where the audit is strict, a line is on
// disk before a call is made and before it is answered. What a line says of a name that nobody
// offers, and of data, is what the client sent, without the secrets of the configuration.
package record

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

	"github.com/vmcp-dev/vmcp/audit"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/clip"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// Options are what a Recorder takes from the proxy.
type Options struct {
	Server  string    // the name of the endpoint, where the process has several
	Out     io.Writer // where the audit goes that has no file
	Log     *slog.Logger
	Secrets *secret.Redactor
	Address func(*http.Request) string // that a request comes from, behind the proxies that are trusted
}

// A Recorder writes the audit that the configuration wants.
type Recorder struct {
	o         Options
	log       atomic.Pointer[Log] // nil: none is kept
	unwritten atomic.Uint64
}

// New makes a recorder that keeps nothing.
func New(o Options) *Recorder { return &Recorder{o: o} }

// Log is the audit of a configuration. A nil log takes nothing.
type Log struct {
	*audit.Log
	cfg config.Audit
}

// Log is the one that there is now, nil when none is kept.
func (r *Recorder) Log() *Log { return r.log.Load() }

// Strict reports whether calls wait for their lines.
func (l *Log) Strict() bool { return l != nil && l.cfg.Mode == "strict" }

// Responses reports whether lines have the results of calls.
func (l *Log) Responses() bool { return l != nil && l.cfg.IncludeResponseData }

// wants reports whether lines of a type are written.
func (l *Log) wants(kind string) bool { return l != nil && l.Log.Wants(kind) }

const (
	// MaxName bounds a name in a line, in bytes.
	MaxName = 256
	// commitWithin is how long a call waits for its line to be on disk.
	commitWithin = 10 * time.Second
)

// Open makes what a configuration wants, or keeps the log there is.
func (r *Recorder) Open(cfg *config.Config) (*Log, error) {
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
	return &Log{l, a}, nil
}

// Use makes l the log. What was queued in the one before is written.
func (r *Recorder) Use(l *Log) {
	if old := r.log.Swap(l); old != nil && old != l {
		r.close(old)
	}
}

// Discard closes a log that was opened for a configuration that is not to be.
func (r *Recorder) Discard(l *Log) {
	if l != r.log.Load() {
		r.close(l)
	}
}

// Close writes what is queued.
func (r *Recorder) Close() { r.close(r.log.Load()) }

func (r *Recorder) close(l *Log) {
	if l == nil {
		return
	}
	if err := l.Close(); err != nil {
		r.o.Log.Error("audit", "err", err)
	}
}

// Reopen makes the audit go on in the file that has the configured name by now: whoever
// rotates files moved the one before away.
func (r *Recorder) Reopen() {
	if l := r.log.Load(); l != nil {
		l.Reopen()
	}
}

// write queues an event in the log that there is now. One that was replaced meanwhile takes none.
func (r *Recorder) write(e *audit.Event) {
	e.Extra.Server = r.o.Server
	for l := r.log.Load(); l != nil; l = r.log.Load() {
		if !errors.Is(l.Append(e), audit.ErrClosed) || r.log.Load() == l {
			return
		}
	}
}

// Put queues an event. Where the audit is strict it has it on disk, and the error says that
// nothing may be done or answered without.
func (r *Recorder) Put(ctx context.Context, e *audit.Event) error {
	if r.log.Load().Strict() {
		return r.commit(ctx, e)
	}
	r.write(e)
	return nil
}

func (r *Recorder) commit(ctx context.Context, e *audit.Event) error {
	e.Extra.Server = r.o.Server
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), commitWithin)
	defer done()
	for l := r.log.Load(); l != nil; l = r.log.Load() {
		err := l.Commit(ctx, e)
		if errors.Is(err, audit.ErrClosed) && r.log.Load() != l {
			continue
		}
		if err != nil {
			r.o.Log.Error("audit not written, and nothing is done without (audit.mode: strict)", "err", err)
			return errUnwritten
		}
		return nil
	}
	return nil
}

// errUnwritten has its HTTP status for clients of every revision.
var errUnwritten = &edge.Refusal{
	Err:    wire.Errorf(wire.Busy, "the audit log cannot be written, and nothing is done without (audit.mode: strict); try again in a moment"),
	Status: http.StatusServiceUnavailable,
}

// Unwritten counts the lines that could not be written.
func (r *Recorder) Unwritten() uint64 { return r.unwritten.Load() }

// Refused writes the line of a request that the edge refused.
func (r *Recorder) Refused(req *http.Request, status int, reason string) {
	if !r.log.Load().wants(audit.HTTPRequest) {
		return
	}
	e := &audit.Event{Type: audit.HTTPRequest, Outcome: audit.Denied}
	if status >= http.StatusInternalServerError {
		e.Outcome = audit.Failure
	}
	e.Source = r.source(req)
	e.Target.Endpoint, e.Target.Method = req.URL.Path, req.Method
	if req.URL.Path != "/mcp" { // anything may be asked for
		e.Target.Endpoint = clip.Bytes(r.o.Secrets.Text(req.URL.Path), MaxName)
	}
	e.Target.Method = clip.Bytes(e.Target.Method, 32)
	e.Extra.Transport, e.Extra.Code, e.Extra.Reason = "streamable-http", status, reason
	if p := edge.PrincipalOf(req.Context()); p != nil {
		who(e, p)
	}
	r.write(e)
}

// Applied writes the line of a configuration that is in force.
func (r *Recorder) Applied(cfg *config.Config) {
	if r.log.Load() == nil {
		return
	}
	names := []string{}
	for _, b := range cfg.Backends {
		names = append(names, b.Name)
	}
	list, _ := json.Marshal(names) // texts
	r.write(&audit.Event{
		Type: audit.ConfigApplied, Outcome: audit.Success, Source: audit.Source{Type: "local", Value: "configuration"},
		Target: audit.Target{Type: "configuration", Name: cfg.Name}, Data: jsonscan.Set(nil, "backends", list),
	})
}

// Unpinned writes the line of a definition, or of instructions, that are not as they are pinned.
func (r *Recorder) Unpinned(v *catalog.Violation) {
	if r.log.Load() == nil {
		return
	}
	e := &audit.Event{Type: audit.PinViolation, Outcome: audit.Success, Source: audit.Source{Type: "local", Value: "backend"}}
	if v.Withheld {
		e.Outcome = audit.Denied
	}
	e.Target = audit.Target{Type: string(v.Name.Kind), Backend: v.Name.Backend, Original: clip.Bytes(r.o.Secrets.Text(v.Name.Own), MaxName)}
	e.Extra.Reason = v.Reason
	e.Data = new(jsonscan.Object).Text("pinned", v.Pinned).Text("offered", v.Offered).JSON()
	r.write(e)
}
