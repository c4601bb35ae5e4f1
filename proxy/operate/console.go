package operate

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/auth"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"

	"github.com/vmcp-dev/vmcp/proxy/edge"

	"github.com/vmcp-dev/vmcp/proxy/runs"

	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// This part of the package serves operators: the page and the API below /api/v1, to requests that the gate admits.
//
//	GET  /api/v1/runs, /api/v1/runs/ID     status.Run
//	GET  /api/v1/events                    server-sent events: backend, catalog, run, config
//	POST /api/v1/tools/NAME/call           {"arguments": {}}: the CallToolResult
//	POST /api/v1/runs/ID/answer            {"key": "", "action": "accept", "content": {}}
//
// and the rest of admin.go. A call goes through the same door as every client's, with the principal that the gate
// found. Nothing else can be changed here.

// ConsoleOptions are the parts of the proxy that a Console uses.
type ConsoleOptions struct {
	// Admin has the status documents, and serves the rest of the API.
	Admin AdminOptions
	// Version is the number of the current catalog.
	Version func() uint64
	Runs    *runs.Runs
	Store   func() durable.Store
	// Call serves a request of a client.
	Call func(context.Context, edge.Request) (*backends.Response, error)
	// Within is the context for serving a request; Turned is called for each refused one.
	Within func(r *http.Request, who *auth.Principal) context.Context
	Turned func(r *http.Request, status int, reason string)
	// HideText replaces the secrets of the configuration in a text.
	HideText func(string) string
}

// A Console serves the operators of one endpoint. It is safe for concurrent use.
type Console struct {
	o        ConsoleOptions
	api      http.Handler // the rest of /api/
	gate     *edge.Gate
	pages    *pages
	events   *hub
	settings atomic.Pointer[settings]
	calls    chan struct{} // one element for each call in progress
	reads    chan struct{} // one element for each result in memory
}

// settings is the part of a configuration that the console uses.
type settings struct {
	page, tryTools, keepValues bool
	maxBody                    int64
}

// NewConsole makes a Console; Apply gives it a configuration.
func NewConsole(o ConsoleOptions) *Console {
	c := &Console{o: o, gate: edge.NewGate(), calls: make(chan struct{}, maxCalls), reads: make(chan struct{}, maxReads)}
	c.events = newEvents(eventsOptions{Now: c.present, Done: o.Admin.Draining})
	c.api = newAdmin(o.Admin)
	c.pages = newPage(pageOptions{Status: c.status, Tools: c.tools, Tool: c.tool, Runs: o.Runs.List, Run: o.Runs.Find, Hide: o.HideText, Logs: c.logs})
	c.Apply(config.Default())
	return c
}

// logs are the last lines about a backend.
func (c *Console) logs(backend string) []backends.Line {
	last, _ := c.o.Admin.Lines.Tail(backend, logLines)
	return last
}

// logLines is how many lines the page of a backend shows.
const logLines = 200

// Apply applies a configuration.
func (c *Console) Apply(cfg *config.Config) {
	a := &cfg.Admin
	body := int64(cfg.MaxRequestBody)
	if body == 0 {
		body = defaultBody
	}
	c.settings.Store(&settings{page: a.HasPage(), tryTools: a.CanTry(), keepValues: a.KeepValues, maxBody: body})
	c.o.Runs.KeepValues(a.KeepValues)
	c.Wake()
}

// Wake notifies the event streams that the state may have changed.
func (c *Console) Wake() { c.events.Wake() }

// Close waits for the event streams to end; Options.Admin.Draining has to be closed before.
func (c *Console) Close() { c.events.Close() }

// isAPI reports whether a path is of the API.
func isAPI(path string) bool { return path == "/api" || strings.HasPrefix(path, "/api/") }

// ConsoleIs reports whether a path is of the API or of the page.
func ConsoleIs(path string) bool { return isAPI(path) || isPage(path) }

func isPage(path string) bool { return pageIs(path) || path == "/login" || path == "/logout" }

// Serve serves a request for the API or the page; false if it is for something else. Without the page, GET / is public,
// and left to the caller.
func (c *Console) Serve(w http.ResponseWriter, r *http.Request, port edge.Port, rules *edge.Rules) bool {
	path, s := r.URL.Path, c.settings.Load()
	mine := isAPI(path) || s.page && isPage(path)
	if !mine {
		return false
	}
	who, err := c.gate.Admit(r, rules, port)
	var refusal *edge.GateRefusal
	switch {
	case path == "/login" || path == "/logout":
		c.session(w, r, rules, port)
	case errors.As(err, &refusal) && isAsset(path) && refusal.Login:
		serveAsset(w, r) // needed by the login page
	case errors.As(err, &refusal):
		if path == "/" && port == edge.Clients && !(refusal.Login && wantsHTML(r)) {
			return false
		}
		c.refuse(w, r, refusal)
	default:
		ctx := edge.WithPrincipal(c.o.Within(r, who), who)
		c.serve(w, r.WithContext(ctx), s)
	}
	return true
}

func (c *Console) serve(w http.ResponseWriter, r *http.Request, s *settings) {
	path := r.URL.Path
	switch {
	case isAsset(path):
		serveAsset(w, r)
	case isAPI(path):
		secure(w.Header())
		c.serveAPI(w, r, s)
	case path == "/" && !wantsHTML(r):
		c.About(w, true)
	default:
		c.pages.Serve(w, r, pageSettings{TryTools: s.tryTools, KeepValues: s.keepValues, LoggedIn: c.gate.LoggedIn(r)})
	}
}

// serveAPI serves what admin.go does not. Names in paths may have slashes, escaped or not.
func (c *Console) serveAPI(w http.ResponseWriter, r *http.Request, s *settings) {
	rest := strings.TrimPrefix(r.URL.EscapedPath(), "/api/v1/")
	section, rest, _ := strings.Cut(rest, "/")
	called, isCall := strings.CutSuffix(rest, "/call")
	answered, isAnswer := strings.CutSuffix(rest, "/answer")
	post := r.Method == http.MethodPost
	switch {
	case section == "tools" && isCall && post:
		c.call(w, r, s, unescaped(called))
	case section == "runs" && isAnswer && post:
		c.answer(w, r, s, unescaped(answered))
	case post:
		fail(w, r, http.StatusNotFound, "no endpoint POST "+r.URL.Path, "POST /api/v1/tools/NAME/call calls a tool")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD, POST")
		fail(w, r, http.StatusMethodNotAllowed, r.Method+" is not supported by this API", "")
	case section == "events" && rest == "":
		c.events.ServeHTTP(w, r)
	case section == "runs" && rest == "":
		c.runs(w, r)
	case section == "runs":
		c.run(w, r, unescaped(rest))
	default:
		c.api.ServeHTTP(w, r)
	}
}

// About describes the endpoint to programs, at GET /; details are for operators.
func (c *Console) About(w http.ResponseWriter, details bool) {
	s := c.status()
	about := struct {
		Name     string   `json:"name"`
		Version  string   `json:"version"`
		Endpoint string   `json:"endpoint"`
		Profiles []string `json:"profiles,omitzero"`
		Tools    *int     `json:"tools,omitempty"` // number of visible tools
	}{Name: s.Name, Version: s.Version, Endpoint: "/mcp"}
	if details {
		about.Profiles, about.Tools = []string{}, &s.Tools.Visible
		for _, p := range s.Profiles {
			about.Profiles = append(about.Profiles, p.Name)
		}
	}
	secure(w.Header())
	c.reply(w, about)
}

func unescaped(s string) string {
	if name, err := url.PathUnescape(s); err == nil {
		return name
	}
	return s
}

func (c *Console) runs(w http.ResponseWriter, r *http.Request) {
	list, err := c.o.Runs.List(r.Context())
	if err != nil {
		w.Header().Set("Warning", `199 - "the store of runs does not answer: these are the runs of this process"`)
	}
	c.reply(w, map[string]any{"runs": list})
}

func (c *Console) run(w http.ResponseWriter, r *http.Request, id string) {
	run, ok, err := c.o.Runs.Find(r.Context(), id)
	switch {
	case err != nil:
		fail(w, r, http.StatusServiceUnavailable, "the store of runs does not answer: "+c.o.HideText(err.Error()), "")
	case !ok:
		fail(w, r, http.StatusNotFound, "no run "+id, "GET /api/v1/runs lists those that are known")
	default:
		c.reply(w, run)
	}
}

// session logs a browser in and out.
func (c *Console) session(w http.ResponseWriter, r *http.Request, rules *edge.Rules, port edge.Port) {
	secure(w.Header())
	if r.Method != http.MethodPost {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	if r.URL.Path == "/logout" {
		if _, err := c.gate.Admit(r, rules, port); err == nil {
			c.gate.Logout(w, r)
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	to := r.PostFormValue("to")
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, `\`) {
		to = "/"
	}
	err := c.gate.Login(w, r, rules, port, strings.TrimSpace(r.PostFormValue("token")))
	var refusal *edge.GateRefusal
	if errors.As(err, &refusal) {
		c.o.Turned(r, refusal.Status, refusal.Reason)
		if refusal.Login || refusal.Status == http.StatusForbidden && refusal.Hint != "" {
			login(w, refusal.Status, refusal.Reason, to)
			return
		}
		writeError(w, refusal.Status, refusal.Reason, refusal.Hint)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// refuse answers a request that the gate has refused.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, refusal *edge.GateRefusal) {
	c.o.Turned(r, refusal.Status, refusal.Reason)
	secure(w.Header())
	if refusal.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="vmcp admin"`)
	}
	switch {
	case isAPI(r.URL.Path) || !wantsHTML(r):
		fail(w, r, refusal.Status, refusal.Reason, refusal.Hint)
	case refusal.Login:
		login(w, refusal.Status, "", r.URL.EscapedPath())
	default:
		writeError(w, refusal.Status, refusal.Reason, refusal.Hint)
	}
}

// reply writes a document as JSON.
func (c *Console) reply(w http.ResponseWriter, document any) {
	text, err := jsonscan.Readable(document)
	if err != nil {
		panic(err) // a bug: documents consist of texts, numbers and valid JSON
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(c.o.Admin.Hide(text), '\n')) // the client may have disconnected
}

// fail answers with an error and a hint about what would be right; as a fragment of HTML for the page.
func fail(w http.ResponseWriter, r *http.Request, code int, message, hint string) {
	secure(w.Header())
	if r.Method == http.MethodPost && wantsHTML(r) {
		wrong(w, code, message, hint)
		return
	}
	text, _ := jsonscan.Readable(status.Failure{Error: message, Hint: hint}) // cannot fail: two strings
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n'))
}
