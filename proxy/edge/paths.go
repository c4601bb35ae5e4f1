package edge

import (
	"cmp"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/proxy/auth"

	"github.com/vmcp-dev/vmcp/internal/wire"

	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// What is served at which path, and to whom.
//
// The clients' port has /mcp, /mcp/NAME for each profile, / (a description of the endpoint), /healthz and its alias
// /health, and /readyz, which tells everyone only whether the endpoint is ready. Details of /readyz, /metrics, the page
// and the API below /api/ are for operators: they are on a separate port if admin.listen is set (AdminHandler), and
// otherwise here for requests from this machine (origin.IsLocal). gate.go decides who sees the page and the API.
//
// Below /oauth/ are the pages for logins at backends (package credentials).
//
// Host and Origin are checked before anything else, for every path but the health checks and a /readyz without details:
// their clients, such as kubelets, know no host name.

// access is the part of a configuration that decides about access. It is replaced as a whole.
type access struct {
	policy   *Policy
	auth     *auth.Authenticator
	incoming config.IncomingAuth // that auth was made from
	profiles catalog.Names
	lives    catalog.Lives // a context for each profile, which ends when the profile is removed
	maxBody  int64         // size limit of a request's body
	gate     Rules         // rules for what operators see
}

// newAccess is the access of a configuration. old is the previous one, nil for none; its authenticator is kept if
// nothing about it has changed.
func newAccess(cfg *config.Config, old *access, log *slog.Logger) (*access, error) {
	who, err := authenticator(cfg, old, log)
	if err != nil {
		return nil, err
	}
	a := &access{auth: who, incoming: cfg.IncomingAuth, policy: NewOrigins(cfg.Hosts, cfg.Origins), profiles: catalog.NamesOf(cfg), maxBody: cmp.Or(int64(cfg.MaxRequestBody), defaultMaxBody)}
	var before catalog.Lives
	if old != nil {
		before = old.lives
	}
	a.lives = a.profiles.Lives(before)
	a.gate = Rules{Policy: a.policy, Auth: who, Admins: cfg.IncomingAuth.Authz.Admins, Apart: cfg.Admin.Listen != "", Token: newToken(cfg.Admin.TokenFile)}
	return a, nil
}

// retire closes what next does not share with a.
func (a *access) retire(next *access) {
	a.lives.Retire(next.lives)
	if a.auth != next.auth {
		a.auth.Close()
	}
}

// ServeHTTP serves the clients' port.
func (v *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if v.stopping.Load() {
		w.Header().Set("Connection", "close")
	}
	switch path := r.URL.Path; {
	case path == "/mcp" || strings.HasPrefix(path, catalog.Path):
		if !v.checkOrigin(w, r) {
			return
		}
		if r, ok := v.authenticate(w, r); ok {
			v.serveMCP(w, r)
		}
	case auth.IsMetadata(path):
		a := v.access.Load()
		a.auth.ServeMetadata(w, r, a.profiles) // public: it depends on the configuration alone
	case isHealth(path):
		serveHealth(w)
	case strings.HasPrefix(path, "/oauth/") && v.login != nil:
		v.serveLogin(w, r)
	case isBareReady(r):
		v.page(w, r, v.showsDetails(r))
	case v.serveOperators(w, r, Clients):
	case v.checkOrigin(w, r):
		v.servePage(w, r)
	}
}

// profileOf is the profile that the path of a request names; "" is none.
func profileOf(r *http.Request) string { return catalog.In(r.URL.Path) }

// checkOrigin checks Host and Origin. It answers refused requests, and CORS preflights.
func (v *Server) checkOrigin(w http.ResponseWriter, r *http.Request) bool {
	from, err := v.access.Load().policy.Check(r)
	if err != nil {
		v.turned(r, http.StatusForbidden, "Host or Origin is not accepted")
		refuse(w, http.StatusForbidden, nil, wire.Invalid("%v", err))
		return false
	}
	if from != "" {
		allow(w.Header(), from)
	}
	if r.Method == http.MethodOptions {
		Preflight(w, r)
		return false
	}
	return true
}

// serveLogin serves the pages for logins at backends. Browsers request them without a token; the pages themselves
// prevent cross-site requests.
func (v *Server) serveLogin(w http.ResponseWriter, r *http.Request) {
	host := r.Clone(r.Context())
	host.Header.Del("Origin")
	if _, err := v.access.Load().policy.Check(host); err != nil {
		v.turned(r, http.StatusForbidden, "Host is not accepted")
		refuse(w, http.StatusForbidden, nil, wire.Invalid("%v", err))
		return
	}
	v.login(w, r)
}

func isHealth(path string) bool { return path == "/healthz" || path == "/health" }

// isBareReady reports whether a request is for /readyz without details.
func isBareReady(r *http.Request) bool {
	return r.URL.Path == "/readyz" && !r.URL.Query().Has("tools")
}

// showsDetails reports whether the clients' port shows details to this client. If clients have to authenticate,
// operators need a separate port.
func (v *Server) showsDetails(r *http.Request) bool {
	e := v.access.Load()
	if e.gate.Apart || !e.auth.Open() || !IsLocal(r) {
		return false
	}
	_, err := e.policy.Check(r)
	return err == nil
}

// servePage serves the pages of the clients' port that need no further admission.
func (v *Server) servePage(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/":
		v.page(w, r, false)
	case !isOperators(path):
		http.NotFound(w, r)
	case v.showsDetails(r):
		v.page(w, r, true)
	case v.access.Load().gate.Apart:
		http.Error(w, "not on this port: see admin.listen of the configuration", http.StatusNotFound)
	default:
		http.Error(w, "not on this port: it is served here only to this machine, and only without authentication; set admin.listen in the configuration to serve it on a separate port", http.StatusNotFound)
	}
}

// isOperators reports whether a path is for operators only.
func isOperators(path string) bool {
	return path == "/metrics" || path == "/readyz" || strings.HasPrefix(path, "/api/")
}

func serveHealth(w http.ResponseWriter) { io.WriteString(w, "ok\n") }
