package operate

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// This part of the package is the HTTP API for operators, below /api/v1. Access is checked before, by edge.Gate.
//
//	GET /api/v1/status       status.Status
//	GET /api/v1/replicas     {"replicas": [status.Replica, …]}
//	GET /api/v1/tools        {"tools": [status.ToolRow, …]}
//	GET /api/v1/tools/NAME   status.Tool
//	GET /api/v1/backends/NAME/logs?tail=100&follow=true   status.LogLine, one JSON text per line
//	GET /api/v1/logs?tail=100&follow=true                 the same for all backends

// AdminOptions are the sources of the API.
type AdminOptions struct {
	Status func() status.Status
	// Replicas returns the status of all replicas; nil: there is only this one.
	Replicas func(context.Context) []status.Replica
	Tools    func() []status.ToolRow
	// Tool describes a tool by its name; false if there is none.
	Tool func(name string) (status.Tool, bool)
	// Lines has the last log lines of the backends, whose names are Backends.
	Lines    *backends.Log
	Backends func() []string
	// Draining is closed when streaming responses have to end.
	Draining <-chan struct{}
	// Hide replaces secrets in a JSON text.
	Hide func(text []byte) []byte
}

// api is the handler.
type api struct {
	AdminOptions
	mux       *http.ServeMux
	followers atomic.Int32 // requests with ?follow
}

// newAdmin returns the handler of the API.
func newAdmin(o AdminOptions) http.Handler {
	a := &api{AdminOptions: o, mux: http.NewServeMux()}
	a.mux.HandleFunc("GET /api/v1/status", func(w http.ResponseWriter, _ *http.Request) { a.reply(w, a.Status()) })
	a.mux.HandleFunc("GET /api/v1/replicas", a.serveReplicas)
	a.mux.HandleFunc("GET /api/v1/tools", func(w http.ResponseWriter, _ *http.Request) {
		a.reply(w, map[string]any{"tools": a.Tools()})
	})
	a.mux.HandleFunc("GET /api/v1/tools/{name}", a.serveTool)
	a.mux.HandleFunc("GET /api/v1/logs", a.serveLogs)
	a.mux.HandleFunc("GET /api/v1/backends/{name}/logs", a.serveLogs)
	a.mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, http.StatusNotFound, fmt.Sprintf("no endpoint %s %s", r.Method, r.URL.Path), "")
	})
	return a.mux
}

func (a *api) serveReplicas(w http.ResponseWriter, r *http.Request) {
	var all []status.Replica
	if a.Replicas != nil {
		all = a.Replicas(r.Context())
	} else {
		own := a.Status()
		all = []status.Replica{{Status: &own}}
	}
	a.reply(w, map[string]any{"replicas": all})
}

func (a *api) serveTool(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	t, ok := a.Tool(name)
	if !ok {
		var known []string
		for _, row := range a.Tools() {
			known = append(known, row.Name)
		}
		a.notFound(w, "tool", name, known)
		return
	}
	a.reply(w, t)
}

// notFound answers 404, with the nearest known name as a hint.
func (a *api) notFound(w http.ResponseWriter, kind, name string, known []string) {
	hint := ""
	if near := display.Nearest(name, known); near != "" && near != name {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	a.fail(w, http.StatusNotFound, fmt.Sprintf("no %s %q", kind, name), hint)
}

// reply writes a document as JSON.
func (a *api) reply(w http.ResponseWriter, document any) { a.write(w, http.StatusOK, document) }

// fail writes an error, with a hint about what would be right.
func (a *api) fail(w http.ResponseWriter, code int, message, hint string) {
	a.write(w, code, status.Failure{Error: message, Hint: hint})
}

func (a *api) write(w http.ResponseWriter, code int, document any) {
	text, err := jsonscan.Readable(document)
	if err != nil {
		panic(err) // a bug: documents consist of texts, numbers and valid JSON
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(append(a.Hide(text), '\n')) // the client may have disconnected
}
