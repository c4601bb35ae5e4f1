package edge

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// AdminHandler is the port for operators: what isOperators says, and /healthz, which alone asks for no token of
// admin.tokenFile. It never serves MCP.
func (v *Server) AdminHandler() http.Handler { return http.HandlerFunc(v.serveAdmin) }

func (v *Server) serveAdmin(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case isHealth(path):
		serveHealth(w)
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

// authorised reports whether a request has the token that this port asks for.
func (v *Server) authorised(r *http.Request) bool {
	t := v.access.Load().token
	if t == nil {
		return true
	}
	lines := r.Header["Authorization"]
	if len(lines) != 1 {
		return false
	}
	scheme, given, _ := strings.Cut(lines[0], " ")
	return strings.EqualFold(scheme, "Bearer") && t.accepts(strings.TrimSpace(given))
}

// tokenFile is a token that is read anew when its file changes.
type tokenFile struct {
	path string

	mu    sync.Mutex
	read  files.Stamp // guarded by mu; of the file when it was last read
	token string      // guarded by mu; "" while the file has none: nothing is accepted
}

// accepts compares a token without telling by the time how much of it is right.
func (t *tokenFile) accepts(given string) bool {
	want := t.current()
	if want == "" {
		return false
	}
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// current is the token that the file holds. While it cannot be read there is none.
func (t *tokenFile) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := files.StampOf(t.path)
	if !now.Exists() {
		t.read, t.token = now, ""
		return ""
	}
	if !t.read.Same(now) {
		t.read = now
		t.token, _ = config.ReadToken(t.path) // "" with an error
	}
	return t.token
}
