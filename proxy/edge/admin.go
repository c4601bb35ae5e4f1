package edge

import (
	"net/http"
)

// AdminHandler serves the port for operators: the paths of isOperators, and /healthz, which alone needs no credential.
// It never serves MCP.
func (v *Server) AdminHandler() http.Handler { return http.HandlerFunc(v.serveAdmin) }

func (v *Server) serveAdmin(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case isHealth(path):
		serveHealth(w)
	case v.serveOperators(w, r, operators):
	case !v.checkOrigin(w, r):
	case !v.access.Load().gate.Operator(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="vmcp admin"`)
		http.Error(w, "want the token of admin.tokenFile, or that of an admin, as Authorization: Bearer", http.StatusUnauthorized)
	case isOperators(path):
		v.page(w, r, true)
	default:
		http.NotFound(w, r)
	}
}

// serveOperators serves the page and the API for operators; false if the request is for something else.
func (v *Server) serveOperators(w http.ResponseWriter, r *http.Request, port Port) bool {
	return v.operators != nil && v.operators(w, r, port, &v.access.Load().gate)
}
