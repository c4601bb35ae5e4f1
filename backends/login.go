package backends

import (
	"net/http"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/conn"
)

// BeginLogin creates the login that a call of a principal needs. base is the external URL of this
// endpoint, without a path.
func (s *Set) BeginLogin(need *credentials.LoginNeeded, base string) (*credentials.PendingLogin, error) {
	for _, b := range s.All() {
		if b.name == need.Backend {
			return s.credentials.Begin(b.cfg, *need, base)
		}
	}
	return nil, conn.ErrClosed
}

// PendingLogin returns the login of a principal with an id; nil when there is none.
func (s *Set) PendingLogin(id string, user *credentials.User) *credentials.PendingLogin {
	return s.credentials.Pending(id, user)
}

// ShareLogins makes k keep the grants of logins from the next Apply on, instead of a file, and b the notices about
// pending ones.
func (s *Set) ShareLogins(k credentials.Keeper, b credentials.Board) { s.credentials.Share(k, b) }

// ServeLogin serves the pages of logins.
func (s *Set) ServeLogin(w http.ResponseWriter, r *http.Request) { s.credentials.ServeHTTP(w, r) }
