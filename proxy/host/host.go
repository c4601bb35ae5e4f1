// Package host is the world of one run of a scripted tool: it executes parts of runs under the tool's
// contract, and what the script asks of its surroundings comes here (builtins.Host).
//
// A Host belongs to one part of a run and knows the catalog that this began with and the Request that it
// works for. Calls of the script are not made here: each goes through the door of the proxy, as a Call
// that a Request takes there, and comes back for what only the run knows: which tool a name is for it,
// a scripted tool that runs one deeper in the same journal, and questions of backends, which become
// questions of the run. Counting of runs and their effects is in observe.go.
package host

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/admission"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/history"
	"github.com/vmcp-dev/vmcp/proxy/metrics"
	"github.com/vmcp-dev/vmcp/proxy/recording"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/proxy/spans"
	"github.com/vmcp-dev/vmcp/script"
)

// Shared is what the runs of one endpoint share. All but Isolation are there.
type Shared struct {
	Log       *slog.Logger
	Secrets   *secret.Redactor
	Spans     *spans.Spans
	Metrics   *metrics.Runs
	Recording *recording.Recorder
	History   *history.Runs
	Admission *admission.Admission

	// Await finds a tool whose backend was not up when the run began; see Proxy.await.
	Await func(ctx context.Context, r catalog.Ref) (*catalog.Entry, error)
	// Hold is how long a request stays open for a run that sleeps.
	Hold func() time.Duration
	// Outlived reports whether runs outlive this process, Stopping whether that is about to end.
	Outlived, Stopping func() bool
	// Isolation computes runs apart from this process; nil: nothing does.
	Isolation script.Isolation
	// IsolateAll has it compute all runs, and not only those whose tools are to be isolated.
	IsolateAll bool
}

// A Request is what a run works for: a request of a client, or the call by which another script
// runs this one.
type Request interface {
	Client() *edge.Client
	// Catalog is what the client can name now.
	Catalog() *catalog.Catalog
	// PrincipalIn is who makes the request; nil is anonymous.
	PrincipalIn(ctx context.Context) *auth.Principal
	// Notify sends a notification to the client, if it wants such.
	Notify(method string, params json.RawMessage)
	// ProgressToken is the one of the request; nil when it wants no progress.
	ProgressToken() json.RawMessage
	// SeesHidden reports whether its trace may show hidden tools.
	SeesHidden() bool
	// Call takes a call of the script through the door, which finds the tool by c.Find and runs
	// a scripted one by c.Nested.
	Call(ctx context.Context, c *Call, params json.RawMessage) (*backends.Response, error)
}

// A Host is the world of one part of a run: the catalog it began with and the request it works for.
type Host struct {
	*Shared
	x       Request
	catalog *catalog.Catalog
	tool    *catalog.ScriptedTool
	chain   []string // the scripted tools that led here, this one last

	part     *runs.Part // what is executed of the run that it is part of
	settings runs.Settings
	refused  map[string]error // questions that the client has answered with an error, by key
	traced   json.RawMessage  // what a client sees that asked for a trace
}

// New is the world of a part; tool is nil where it is the run's to say. A run goes on with the program
// and the limits that it began with.
func (s *Shared) New(part *runs.Part, x Request, tool *catalog.ScriptedTool) (*Host, error) {
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
			return nil, wire.Errorf(wire.InternalError, "the run began with version %d of the script engine, and this program has version %d: it cannot go on here", r.Program.Engine, script.Engine)
		}
		if tool, err = (catalog.Pinned{
			Name: r.Tool, Main: r.Program.Main, Hash: r.Program.Hash, Entry: kept.Entry, Files: r.Program.Files, Limits: kept.Limits, Isolated: kept.Isolated, Output: kept.Output,
		}).Tool(tool); err != nil {
			return nil, err
		}
	}
	return &Host{Shared: s, x: x, catalog: c, tool: tool, chain: []string{r.Tool}, part: part, settings: kept}, nil
}

// Audit is the line of the audit that the run began with.
func (h *Host) Audit() string { return h.settings.Audit }

// Tool is the name of the scripted tool.
func (h *Host) Tool() string { return h.tool.Name }

// Traced is what a client sees that asked for a trace, once the part has ended; nil without.
func (h *Host) Traced() json.RawMessage { return h.traced }

// Refuse has questions answered, by their keys, with the errors that the client gave.
func (h *Host) Refuse(answers map[string]error) { h.refused = answers }

// InputSchema returns the input schema of a tool that clients see.
func (h *Host) InputSchema(name string) (json.RawMessage, bool) {
	e := h.catalog.Find(catalog.AnyTool(name))
	if e == nil || e.Hidden {
		return nil, false
	}
	return jsonscan.Get(e.Definition, "inputSchema"), true
}

// Caller is who makes the request that the run is part of.
func (h *Host) Caller(ctx context.Context) (builtins.Caller, error) {
	who := h.x.PrincipalIn(ctx)
	if who == nil {
		return builtins.Caller{}, nil
	}
	return builtins.Caller{Subject: who.Subject, Issuer: who.Issuer, Groups: who.Groups, Scopes: who.Scopes, Client: who.Client}, nil
}

// Elicit returns the answer that has come to a question, or stops the run until there is one. Where
// nobody is there, somebody may answer later; a client that is there and cannot be asked is the answer.
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

// answered counts what the user did.
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

// Notify writes a script's message to the log and to the client, and its progress to a
// client that asked for it.
func (h *Host) Notify(ctx context.Context, n builtins.Notice) {
	if n.Kind == "progress" {
		h.progress(n)
		return
	}
	h.Log.Log(ctx, slogLevel(n.Level), n.Message, "tool", h.tool.Name, "pos", n.Pos)
	data := json.RawMessage(jsonscan.Quote(n.Message))
	if len(n.Fields) > 0 {
		data = jsonscan.Set(n.Fields, "message", data)
	}
	h.x.Notify(wire.LogMessage, new(jsonscan.Object).Text("level", n.Level).Text("logger", h.tool.Name).Raw("data", data).JSON())
}

func (h *Host) progress(n builtins.Notice) {
	token := h.x.ProgressToken()
	if token == nil {
		return
	}
	params := new(jsonscan.Object).Raw("progressToken", token).Raw("progress", number(n.Done))
	if n.Total > 0 {
		params.Raw("total", number(n.Total))
	}
	if n.Message != "" {
		params.Text("message", n.Message)
	}
	h.x.Notify(wire.Progress, params.JSON())
}

func number(f float64) json.RawMessage { return strconv.AppendFloat(nil, f, 'f', -1, 64) }

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
