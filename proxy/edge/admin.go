package edge

import (
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/proxy/gate"
)

// AdminHandler is the port for operators: what isOperators says, and /healthz, which alone asks for no token of
// admin.tokenFile. It never serves MCP.
func (v *Server) AdminHandler() http.Handler { return http.HandlerFunc(v.serveAdmin) }

func (v *Server) serveAdmin(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case isHealth(path):
		serveHealth(w)
	case v.serveOperators(w, r, gate.Operators):
	case !v.checkOrigin(w, r):
	case !v.authorised(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="vmcp admin"`)
		http.Error(w, "want the token of admin.tokenFile as Authorization: Bearer", http.StatusUnauthorized)
	case isOperators(path):
		v.page(w, r, true)
	default:
		http.NotFound(w, r)
	}
}

// serveOperators serves the page and the API for operators; false: the request is for something else.
func (v *Server) serveOperators(w http.ResponseWriter, r *http.Request, port gate.Port) bool {
	return v.operators != nil && v.operators(w, r, port, &v.access.Load().gate)
}

// authorised reports whether a request has the token that this port asks for.
func (v *Server) authorised(r *http.Request) bool {
	t := v.access.Load().gate.Token
	if t == nil {
		return true
	}
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return false
	}
	scheme, given, _ := strings.Cut(lines[0], " ")
	return strings.EqualFold(scheme, "Bearer") && t.Accepts(strings.TrimSpace(given))
}
