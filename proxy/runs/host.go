package runs

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/auth"

	"github.com/vmcp-dev/vmcp/proxy/catalog"

	"github.com/vmcp-dev/vmcp/proxy/edge"

	"github.com/vmcp-dev/vmcp/proxy/observe"

	"github.com/vmcp-dev/vmcp/script"
)

// This part of the package executes parts of runs of scripted tools: it validates arguments and results, and implements what a
// script asks of its environment (builtins.Host).
//
// A Host belongs to one part of a run. It has the catalog with which the part began, and the Request for which it runs.
// It does not make the calls of the script itself: each goes through the door of the proxy, as a Call passed to
// Request.Call, which calls back for what only the run knows: the tool that a name means for the run (Call.Find), a
// nested scripted tool in the same journal (Call.Nested), and requests of backends, which become questions of the run.
// Runs and their effects are counted in observe.go.

// Shared is what the runs of one endpoint share. Only Isolation may be nil.
type Shared struct {
	Log       *slog.Logger
	Secrets   *secret.Redactor
	Spans     *observe.Spans
	Metrics   *observe.Runs
	Recording *Recorder
	History   *Runs
	Admission *Admission

	// Await finds a tool whose backend was not available when the run began; see Proxy.await.
	Await func(ctx context.Context, r catalog.Ref) (*catalog.Entry, error)
	// Outlived reports whether the store of runs outlives this process, Stopping whether the process is shutting down.
	Outlived, Stopping func() bool
	// Isolation executes runs in worker processes; nil: there is none.
	Isolation script.Isolation
	// IsolateAll isolates all runs, not only those of tools that are configured so.
	IsolateAll bool
}

// A HostRequest is what a run works for: a request of a client, or the call by which another script runs the tool.
type HostRequest interface {
	Client() *edge.Client
	// Catalog is the client's current catalog.
	Catalog() *catalog.Catalog
	// PrincipalIn is the principal of the request; nil is anonymous.
	PrincipalIn(ctx context.Context) *auth.Principal
	// Notify sends a notification to the client, if the client wants it.
	Notify(method string, params json.RawMessage)
	// Progress reports the progress of the run to a client that has a progress token; total is 0 when it is not known.
	Progress(done, total float64, message string)
	// Hold is how long the run may sleep in memory from now on.
	Hold() time.Duration
	// SeesHidden reports whether its trace may show hidden tools.
	SeesHidden() bool
	// Call makes a call of the script through the door, which finds the tool by c.Find and runs a scripted one by
	// c.Nested.
	Call(ctx context.Context, c *HostCall, params json.RawMessage) (*backends.Response, error)
}

// A Host is the environment of one part of a run.
type Host struct {
	*Shared
	x       HostRequest
	catalog *catalog.Catalog
	tool    *catalog.ScriptedTool
	chain   []string // nested scripted tools, the outermost first, this one last

	within   time.Duration // what the call that runs the tool leaves of limits.time; 0: all
	part     *Part         // the part of the run that is executed
	settings Settings
	refused  map[string]error // questions that the client has answered with an error, by key
	traced   json.RawMessage  // the trace, for a client that asked for it
}

// New makes the Host of a part; tool is nil if the run determines it. A resumed run uses the program and the limits
// with which it began.
func (s *Shared) New(part *Part, x HostRequest, tool *catalog.ScriptedTool) (*Host, error) {
	r, c := part.Run(), x.Catalog()
	kept, err := part.Settings()
	if err != nil {
		return nil, err
	}
	if part.Kept() {
		if tool == nil {
			if e := c.Find(catalog.AnyTool(r.Tool)); e != nil {
				tool = e.Script
			}
		}
		if r.Program.Engine != script.Engine {
			return nil, wire.Errorf(wire.InternalError, "the run began with version %d of the script engine and cannot be resumed by this program, which has version %d", r.Program.Engine, script.Engine)
		}
		if tool, err = (catalog.Pinned{
			Name: r.Tool, Main: r.Program.Main, Hash: r.Program.Hash, Entry: kept.Entry, Files: r.Program.Files, Limits: kept.Limits, Isolated: kept.Isolated, Output: kept.Output,
		}).Tool(tool); err != nil {
			return nil, err
		}
	}
	return &Host{Shared: s, x: x, catalog: c, tool: tool, chain: []string{r.Tool}, part: part, settings: kept}, nil
}

// Audit is the id of the audit event of the run's first request.
func (h *Host) Audit() string { return h.settings.Audit }

// Tool is the name of the scripted tool.
func (h *Host) Tool() string { return h.tool.Name }

// Traced is the trace, once the part has ended; nil if the client did not ask for it.
func (h *Host) Traced() json.RawMessage { return h.traced }

// Refuse sets the errors with which the client has answered questions, by key.
func (h *Host) Refuse(answers map[string]error) { h.refused = answers }

// InputSchema returns the input schema of a visible tool.
func (h *Host) InputSchema(name string) (json.RawMessage, bool) {
	e := h.catalog.Find(catalog.AnyTool(name))
	if e == nil || e.Hidden {
		return nil, false
	}
	return jsonscan.Get(e.Definition, "inputSchema"), true
}

// Caller describes the principal of the request.
func (h *Host) Caller(ctx context.Context) (builtins.Caller, error) {
	who := h.x.PrincipalIn(ctx)
	if who == nil {
		return builtins.Caller{}, nil
	}
	return builtins.Caller{Subject: who.Subject, Issuer: who.Issuer, Groups: who.Groups, Scopes: who.Scopes, Client: who.Client}, nil
}

// Elicit returns the answer to a question if there is one, or suspends the run until there is. If no client is
// connected, the question stays open; a connected client that does not support it counts as an answer: an error.
func (h *Host) Elicit(_ context.Context, q script.Question) (json.RawMessage, error) {
	if err := h.refused[q.Key]; err != nil {
		return h.answered(nil, err)
	}
	if a := h.part.Answer(q.Key); a != nil {
		return h.answered(slices.Clone(a), nil)
	}
	if !h.part.Alone() && !h.x.Client().Can(wire.Elicit) {
		return nil, builtins.ErrNoElicitation
	}
	return nil, &script.Suspended{Questions: []script.Question{q}, Wake: q.Deadline}
}

// answered counts the action of an answer.
func (h *Host) answered(a json.RawMessage, err error) (json.RawMessage, error) {
	action := "error"
	if err == nil {
		action = jsonscan.GetString(a, "action")
	}
	if err == nil && action != "accept" && action != "decline" && action != "cancel" {
		action = "invalid"
	}
	h.Metrics.Answered(h.tool.Name, action)
	return a, err
}

// Notify sends a script's message to the log and to the client, and its progress to a client that has a progress token.
func (h *Host) Notify(ctx context.Context, n builtins.Notice) {
	if n.Kind == "progress" {
		h.x.Progress(n.Done, n.Total, n.Message)
		return
	}
	h.Log.Log(ctx, slogLevel(n.Level), n.Message, "tool", h.tool.Name, "pos", n.Pos)
	data := json.RawMessage(jsonscan.Quote(n.Message))
	if len(n.Fields) > 0 {
		data = jsonscan.Set(n.Fields, "message", data)
	}
	h.x.Notify(wire.LogMessage, new(jsonscan.Object).Text("level", n.Level).Text("logger", h.tool.Name).Raw("data", data).JSON())
}

func slogLevel(level string) slog.Level {
	switch s := wire.Severity(level); {
	case s <= wire.Severity("debug"):
		return slog.LevelDebug
	case s <= wire.Severity("notice"):
		return slog.LevelInfo
	case s == wire.Severity("warning"):
		return slog.LevelWarn
	}
	return slog.LevelError
}
