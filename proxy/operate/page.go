package operate

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// This part of the package is the web page for operators: backends, tools with a form to call them, runs with their steps, open
// questions, and problems.
//
//	GET /  /tools  /tools/NAME  /runs  /runs/ID  /backends/NAME  /problems  /assets/…  /favicon.ico
//
// Pages are made from the documents of package status; access is decided before (edge.Gate). The script of the pages
// fetches them again when something has changed, and sends the forms; without it the pages can be read. The content
// security policy allows only our own script and style. Texts of servers are escaped, and invisible characters are made
// visible.

// pageOptions are the sources of the pages.
type pageOptions struct {
	Status func() status.Status
	Tools  func() []status.ToolRow
	Tool   func(name string) (status.Tool, bool)
	Runs   func(context.Context) ([]status.Run, error)
	Run    func(ctx context.Context, id string) (status.Run, bool, error)
	// Logs returns the last log lines of a backend. May be nil.
	Logs func(backend string) []backends.Line
	// Hide replaces the secrets of the configuration in a text.
	Hide func(string) string
}

// pageSettings are the settings of a request to a page.
type pageSettings struct {
	TryTools   bool // tools can be called from their page, and questions answered
	KeepValues bool // runs show arguments and results
	LoggedIn   bool // the browser has a session, and can log out
}

// pages are the pages of one endpoint. They are safe for concurrent use.
type pages struct{ o pageOptions }

// newPage returns the pages.
func newPage(o pageOptions) *pages {
	if o.Hide == nil {
		o.Hide = func(s string) string { return s }
	}
	return &pages{o}
}

// Policy is the Content-Security-Policy of every page.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

//go:embed templates/*.html
var texts embed.FS

// templates are parsed on first use.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(texts, "templates/*.html"))
})

// head has the data of every page.
type head struct {
	Title, Section string
	Name, Version  string
	Ready          bool
	Draining       bool
	Down           int // number of backends that are neither ready nor disabled
	Waiting        int // number of unanswered questions of runs
	Problems       int
	Settings       pageSettings
	Style, Script  string
	Now            time.Time
	Reload         bool // the page is reloaded on changes
}

func (v visitor) head(s *status.Status, title, section string) head {
	h := head{
		Title: title, Section: section, Name: s.Name, Version: s.Version, Ready: s.Ready, Draining: s.Draining, Problems: len(s.Problems),
		Settings: v.settings, Style: stylePath, Script: scriptPath, Now: time.Now(), Reload: true,
	}
	for _, b := range s.Backends {
		if b.State != status.Ready && b.State != status.Disabled {
			h.Down++
		}
	}
	all, _ := v.runsNow() // the page of runs reports the error
	for _, r := range all {
		if r.Open > 0 {
			h.Waiting++
		}
	}
	return h
}

// pageIs reports whether a path belongs to the pages.
func pageIs(path string) bool {
	switch path {
	case "/", "/tools", "/runs", "/problems", "/favicon.ico":
		return true
	}
	for _, folder := range []string{"/tools/", "/runs/", "/backends/", "/assets/"} {
		if strings.HasPrefix(path, folder) {
			return true
		}
	}
	return false
}

// wantsHTML reports whether a client asks for text/html.
func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// Serve serves a page.
func (p *pages) Serve(w http.ResponseWriter, r *http.Request, settings pageSettings) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeError(w, http.StatusMethodNotAllowed, "A page is only read", "The API below /api/v1 calls tools.")
		return
	}
	v := visitor{p: p, r: r, settings: settings, seen: &seenRuns{}}
	path := r.URL.EscapedPath()
	section, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	name, err := url.PathUnescape(rest)
	if err != nil {
		name = rest
	}
	switch {
	case path == "/":
		v.overview(w)
	case path == "/problems":
		v.problems(w)
	case path == "/tools":
		v.tools(w)
	case path == "/runs":
		v.runs(w)
	case section == "tools" && rest != "":
		v.tool(w, name)
	case section == "runs" && rest != "":
		v.run(w, name)
	case section == "backends" && rest != "":
		v.backend(w, name)
	default:
		v.missing(w, "page", path, "/")
	}
}

// visitor is a request for a page.
type visitor struct {
	p        *pages
	r        *http.Request
	settings pageSettings
	seen     *seenRuns
}

// seenRuns caches the runs for one request.
type seenRuns struct {
	once sync.Once
	all  []status.Run
	err  error
}

func (v visitor) runsNow() ([]status.Run, error) {
	v.seen.once.Do(func() { v.seen.all, v.seen.err = v.p.o.Runs(v.r.Context()) })
	return v.seen.all, v.seen.err
}

// overview has the data of the start page.
type overview struct {
	head
	Status  status.Status
	Runs    []status.Run
	Asking  []status.Run
	RunsErr error
	UpCount int // backends that are ready
	OnCount int // backends that are not disabled
}

func (v visitor) overview(w http.ResponseWriter) {
	s := v.p.o.Status()
	o := overview{head: v.head(&s, s.Name, "overview"), Status: s}
	var all []status.Run
	all, o.RunsErr = v.runsNow()
	o.Asking = asking(all)
	o.Runs = all[:min(len(all), 8)]
	for _, b := range s.Backends {
		if b.State != status.Disabled {
			o.OnCount++
		}
	}
	o.UpCount = o.OnCount - o.Down
	render(w, http.StatusOK, "overview", o)
}

func asking(all []status.Run) []status.Run {
	return slices.DeleteFunc(slices.Clone(all), func(r status.Run) bool { return r.Open == 0 })
}

func (v visitor) problems(w http.ResponseWriter) {
	s := v.p.o.Status()
	render(w, http.StatusOK, "problems", overview{head: v.head(&s, "Problems", "problems"), Status: s})
}

// listed are the tools of one backend on the page of tools.
type listed struct {
	Backend string // "" for scripted tools
	Tools   []status.ToolRow
}

type tools struct {
	head
	Groups     []listed
	Query      string
	Shown, All int
	Starting   int // backends that are connecting
}

func (v visitor) tools(w http.ResponseWriter) {
	s := v.p.o.Status()
	t := tools{head: v.head(&s, "Tools", "tools"), Query: v.r.URL.Query().Get("q")}
	place := map[string]int{}
	for _, b := range s.Backends {
		if b.State == status.Connecting {
			t.Starting++
		}
	}
	rows := v.p.o.Tools()
	slices.SortStableFunc(rows, func(a, b status.ToolRow) int { return strings.Compare(a.Name, b.Name) })
	for _, row := range rows {
		t.All++
		if !matches(&row, t.Query) {
			continue
		}
		t.Shown++
		i, ok := place[row.Backend]
		if !ok {
			i = len(t.Groups)
			place[row.Backend] = i
			t.Groups = append(t.Groups, listed{Backend: row.Backend})
		}
		t.Groups[i].Tools = append(t.Groups[i].Tools, row)
	}
	slices.SortStableFunc(t.Groups, func(a, b listed) int { return strings.Compare(a.Backend, b.Backend) })
	render(w, http.StatusOK, "tools", t)
}

// matches reports whether a tool has every word of a query in its name, title, description or backend.
func matches(row *status.ToolRow, query string) bool {
	text := strings.ToLower(row.Name + " " + row.Title + " " + row.Description + " " + row.Backend)
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

type pageTool struct {
	head
	Tool   status.Tool
	State  string // of its backend
	Fields []field
	Free   bool // the schema lists no properties
}

func (v visitor) tool(w http.ResponseWriter, name string) {
	t, ok := v.p.o.Tool(name)
	if !ok {
		v.missing(w, "tool", name, "/tools")
		return
	}
	s := v.p.o.Status()
	page := pageTool{head: v.head(&s, t.Name, "tools"), Tool: t, Fields: fieldsOf(t.InputSchema, "f")}
	page.Free, page.Reload = len(page.Fields) == 0, false
	for _, b := range s.Backends {
		if b.Name == t.Backend {
			page.State = b.State
		}
	}
	render(w, http.StatusOK, "tool", page)
}

type runList struct {
	head
	Runs []status.Run
	Err  error
}

func (v visitor) runs(w http.ResponseWriter) {
	s := v.p.o.Status()
	l := runList{head: v.head(&s, "Runs", "runs")}
	l.Runs, l.Err = v.runsNow()
	render(w, http.StatusOK, "runs", l)
}

type run struct {
	head
	Run   status.Run
	Steps []bar
	Asked []asked
}

func (v visitor) run(w http.ResponseWriter, id string) {
	r, ok, err := v.p.o.Run(v.r.Context(), id)
	switch {
	case err != nil:
		writeError(w, http.StatusServiceUnavailable, "The store of runs does not answer", v.p.o.Hide(err.Error()))
		return
	case !ok:
		v.missing(w, "run", id, "/runs")
		return
	}
	s := v.p.o.Status()
	page := run{head: v.head(&s, r.Tool, "runs"), Run: r, Steps: bars(&r)}
	for i, q := range r.Questions {
		page.Asked = append(page.Asked, askedOf(q, i))
	}
	render(w, http.StatusOK, "run", page)
}

type pageBackend struct {
	head
	Backend status.Backend
	Tools   []status.ToolRow
	Logs    []backends.Line
	HasLogs bool
}

func (v visitor) backend(w http.ResponseWriter, name string) {
	s := v.p.o.Status()
	i := slices.IndexFunc(s.Backends, func(b status.Backend) bool { return b.Name == name })
	if i < 0 {
		v.missing(w, "backend", name, "/")
		return
	}
	page := pageBackend{head: v.head(&s, name, "overview"), Backend: s.Backends[i], HasLogs: v.p.o.Logs != nil}
	for _, row := range v.p.o.Tools() {
		if row.Backend == name {
			page.Tools = append(page.Tools, row)
		}
	}
	if page.HasLogs {
		page.Logs = v.p.o.Logs(name)
	}
	render(w, http.StatusOK, "backend", page)
}

func (v visitor) missing(w http.ResponseWriter, kind, name, back string) {
	render(w, http.StatusNotFound, "failure", failure{
		head: bare("Not found"), Code: 404, Text: fmt.Sprintf("There is no %s %q", kind, name), Back: back,
	})
}

type failure struct {
	head
	Code             int
	Text, Hint, Back string
}

func bare(title string) head { return head{Title: title, Style: stylePath, Script: scriptPath} }

// writeError answers with a page about an error.
func writeError(w http.ResponseWriter, code int, text, hint string) {
	render(w, code, "failure", failure{head: bare(http.StatusText(code)), Code: code, Text: text, Hint: hint, Back: ""})
}

// login answers with the login page; wrong says why the last token was refused.
func login(w http.ResponseWriter, code int, wrong, to string) {
	render(w, code, "login", struct {
		head
		Wrong, To string
	}{bare("Log in"), wrong, to})
}

// secure sets the security headers for everything that operators see.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func render(w http.ResponseWriter, code int, name string, data any) {
	var out bytes.Buffer
	if err := templates().ExecuteTemplate(&out, name, data); err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	secure(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Add("Vary", "Accept")
	w.WriteHeader(code)
	_, _ = w.Write(out.Bytes()) // the client may have disconnected
}

// writeResult answers with the fragment for the result of a call: a CallToolResult, or the questions of an input_required
// one.
func writeResult(w http.ResponseWriter, result json.RawMessage) {
	render(w, http.StatusOK, "result", resultOf(result))
}

// wrong answers with the fragment for a call that was not made.
func wrong(w http.ResponseWriter, code int, text, hint string) {
	render(w, code, "wrong", failure{Code: code, Text: text, Hint: hint})
}
