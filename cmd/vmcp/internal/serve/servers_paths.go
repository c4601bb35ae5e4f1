package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/vmcp-dev/vmcp/config/kube/cluster"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// The paths of the port for clients.
//
//	/NAME/mcp   a server; also /mcp if it is the only one
//	/healthz    200 as long as the process runs
//	/readyz     503 before the first complete state is applied, and once the process is about to end
//	/           the name, version and endpoints; or for a browser the page for operators
//	/api/…      the API for operators, of the only server or of --server
//	/NAME/api/… the API for operators of each server
//
// Requests below /NAME/ are passed to the server's proxy, which checks Host, Origin and credentials itself.
// Details of /readyz, and /metrics, are for operators: on the port of admin.listen if it is set, and
// otherwise here for requests from this machine.

// wellKnown is the prefix of the paths of protected resource metadata (RFC 9728); the path of the resource follows it.
const wellKnown = "/.well-known/oauth-protected-resource"

// ServeHTTP serves the port for clients.
func (s *Servers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.stopping.Load() {
		w.Header().Set("Connection", "close")
	}
	path := r.URL.Path
	if isHealth(path) {
		io.WriteString(w, "ok\n")
		return
	}
	if path == "/readyz" && !r.URL.Query().Has("tools") {
		s.serveReady(w, r, s.showsDetails(r))
		return
	}
	if name, rest, ok := serverIn(path); ok {
		if v := s.find(name); v != nil {
			s.serveServer(w, r, v, rest)
			return
		}
	}
	if s.serveOperators(w, r, (*proxy.Proxy).ServeHTTP) {
		return
	}
	if _, err := s.policy.Check(r); err != nil {
		refuse(w, http.StatusForbidden, err.Error())
		return
	}
	s.servePage(w, r)
}

// serveOperators serves the page and the API for operators of the server that a request names. Its proxy checks
// the credentials. It returns false for other paths, and for those that name none of several servers: links in the page
// are absolute, so that with several servers only the API is served.
func (s *Servers) serveOperators(w http.ResponseWriter, r *http.Request, serve func(*proxy.Proxy, http.ResponseWriter, *http.Request)) bool {
	path, v := r.URL.EscapedPath(), s.only()
	if name, rest, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/"); ok && strings.HasPrefix(rest, "api/") && s.find(name) != nil {
		path, v = "/"+rest, s.find(name)
	}
	switch {
	case v == nil || !s.isServed(v) || !proxy.IsOperators(path): // one without a configuration does not know whom it lets in
		return false
	case path == "/" && !strings.Contains(r.Header.Get("Accept"), "text/html"):
		return false
	}
	to := *r
	to.URL = new(url.URL)
	*to.URL = *r.URL
	to.URL.RawPath = path
	var err error
	if to.URL.Path, err = url.PathUnescape(path); err != nil {
		return false
	}
	serve(v.proxy, w, &to)
	return true
}

// only is the server that paths without a name belong to; nil: there are several, or none.
func (s *Servers) only() *server {
	if s.o.Only != "" {
		return s.find(s.o.Only)
	}
	if names := s.names(); len(names) == 1 {
		return s.find(names[0])
	}
	return nil
}

func isHealth(path string) bool { return path == "/healthz" || path == "/health" }

// serverIn is the name of a server in a path, and the path that its proxy is to see.
func serverIn(path string) (name, rest string, ok bool) {
	if of, is := strings.CutPrefix(path, wellKnown+"/"); is {
		name, _, ok = strings.Cut(of, "/mcp")
		return name, path, ok
	}
	name, rest, ok = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if rest = "/" + rest; !ok || rest != "/mcp" && !strings.HasPrefix(rest, "/mcp/") {
		return "", "", false
	}
	return name, rest, true
}

func (s *Servers) isServed(v *server) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return v.served
}

// serveServer passes a request to the proxy of a server, with another path.
func (s *Servers) serveServer(w http.ResponseWriter, r *http.Request, v *server, path string) {
	if !s.isServed(v) {
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("%s is not served, see its status: kubectl describe virtualmcpserver %s", v.name, v.name))
		return
	}
	to := *r
	to.URL = new(url.URL)
	*to.URL = *r.URL
	to.URL.Path, to.URL.RawPath = path, ""
	v.proxy.ServeHTTP(w, &to)
}

// servePage serves the paths that belong to no server.
func (s *Servers) servePage(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/":
		answer(w, http.StatusOK, map[string]any{"name": "vmcp", "version": s.o.Version, "endpoints": s.paths()})
	case path == "/mcp" || strings.HasPrefix(path, "/mcp/") || path == wellKnown || strings.HasPrefix(path, "/oauth/"):
		s.serveOnly(w, r)
	case path == "/readyz" && s.showsDetails(r):
		s.serveReady(w, r, true)
	case path == "/metrics" && s.showsDetails(r):
		s.serveMetrics(w, r)
	case strings.HasSuffix(path, "/mcp"):
		s.refuseUnknown(w, path)
	default:
		http.NotFound(w, r)
	}
}

// serveOnly serves /mcp and the paths below it for the only server.
func (s *Servers) serveOnly(w http.ResponseWriter, r *http.Request) {
	if v := s.only(); v != nil {
		s.serveServer(w, r, v, r.URL.Path)
		return
	}
	s.refuseUnknown(w, r.URL.Path)
}

// refuseUnknown answers a path that belongs to no server.
func (s *Servers) refuseUnknown(w http.ResponseWriter, path string) {
	if h := s.o.Health(); !h.Complete {
		refuse(w, http.StatusServiceUnavailable, "the objects of the namespace have not been read yet; try again in a moment")
		return
	}
	text := fmt.Sprintf("nothing is served at %s", path)
	if all := s.paths(); len(all) > 0 {
		text += "; there are " + strings.Join(all, ", ")
	}
	refuse(w, http.StatusNotFound, text)
}

// paths are the paths of the endpoints of all servers.
func (s *Servers) paths() []string {
	all := []string{}
	for _, name := range s.names() {
		all = append(all, "/"+name+"/mcp")
	}
	return all
}

// showsDetails reports whether the clients' port may show details to the sender of a request.
func (s *Servers) showsDetails(r *http.Request) bool {
	if s.o.Process.Admin.Listen != "" || !edge.IsLocal(r) {
		return false
	}
	_, err := s.policy.Check(r)
	return err == nil
}

// AdminHandler returns the handler of the port for operators.
func (s *Servers) AdminHandler() http.Handler { return http.HandlerFunc(s.serveAdmin) }

func (s *Servers) serveAdmin(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case isHealth(path):
		io.WriteString(w, "ok\n")
	case s.serveOperators(w, r, (*proxy.Proxy).ServeAdmin):
	case !s.admin.accepts(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="vmcp admin"`)
		http.Error(w, "want the token of admin.tokenFile as Authorization: Bearer", http.StatusUnauthorized)
	case path == "/metrics":
		s.serveMetrics(w, r)
	case path == "/readyz":
		s.serveReady(w, r, true)
	default:
		http.NotFound(w, r)
	}
}

// page is the response of /readyz for operators.
type page struct {
	Ready    bool                       `json:"ready"`
	Draining bool                       `json:"draining"`
	Source   cluster.Health             `json:"source"`
	Servers  map[string]json.RawMessage `json:"servers"` // by name; null: not served
}

// serveReady answers 200 once the first complete state is applied and its backends have answered or failed, also when
// the API server is away later, and 503 once the process is about to end. With --server, a server that is not served keeps
// the process from becoming ready, so that a rollout stops at replicas that cannot serve it.
func (s *Servers) serveReady(w http.ResponseWriter, r *http.Request, details bool) {
	p := page{Source: s.o.Health(), Draining: s.stopping.Load(), Servers: map[string]json.RawMessage{}}
	tried, refused, only := true, false, r.URL.Query().Get("server")
	s.each(func(v *server, served bool) {
		if served {
			status, ready := v.proxy.Details(r.Context(), r.URL.Query().Has("tools"))
			tried = tried && ready
			if only == "" || only == v.name {
				p.Servers[v.name] = status
			}
			return
		}
		refused = s.o.Only != "" // one of several that is not served is no reason to send nothing to the others
		if only == "" || only == v.name {
			p.Servers[v.name] = json.RawMessage("null")
		}
	})
	if p.Source.Complete && tried && !refused {
		s.ready.Store(true)
	}
	p.Ready = s.ready.Load() && !p.Draining
	status := http.StatusOK
	if !p.Ready {
		status = http.StatusServiceUnavailable
	}
	if details {
		answer(w, status, p)
		return
	}
	answer(w, status, struct {
		Ready    bool   `json:"ready"`
		Draining bool   `json:"draining"`
		Error    string `json:"error,omitempty"`
	}{p.Ready, p.Draining, unready(p, refused)})
}

// unready is what readiness waits for, without names of objects: everybody may see it.
func unready(p page, refused bool) string {
	switch {
	case p.Ready || p.Draining:
		return ""
	case p.Source.Waiting != "":
		return p.Source.Waiting
	case !p.Source.Complete:
		return "the objects of the namespace have not been read yet"
	case refused:
		return "the server of this process is not served: its object or what that needs, such as a database, is not in order; its status and the log say what"
	}
	return "backends are connecting"
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(body) // the client may be gone
}

// refuse answers with a JSON-RPC error.
func refuse(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": wire.InvalidRequest, "message": text}})
}

// tokenFile is a file with the token for the port for operators. It is read for every request: there
// are few.
type tokenFile struct{ path string }

// maxToken bounds the file, in bytes.
const maxToken = 64 << 10

// accepts compares the token of a request in constant time.
func (t tokenFile) accepts(r *http.Request) bool {
	if t.path == "" {
		return true
	}
	text, err := files.Read(t.path, maxToken)
	want := strings.TrimSpace(string(text))
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if err != nil || want == "" || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	a, b := sha256.Sum256([]byte(strings.TrimSpace(given))), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
