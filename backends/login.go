package backends

import (
	"net/http"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/conn"
)

// BeginLogin asks a principal for a login that a call of it needs. base is where browsers reach
// this endpoint, without a path.
func (s *Set) BeginLogin(need *credentials.LoginNeeded, base string) (*credentials.PendingLogin, error) {
	for _, b := range s.All() {
		if b.name == need.Backend {
			return s.credentials.Begin(b.cfg, *need, base)
		}
	}
	return nil, conn.ErrClosed
}

// PendingLogin is the login that a principal was asked for; nil when there is none of this id.
func (s *Set) PendingLogin(id string, user *credentials.User) *credentials.PendingLogin {
	return s.credentials.Pending(id, user)
}

// ShareLogins makes k keep what logins give from the next Apply on, instead of a file, and b have those under way.
func (s *Set) ShareLogins(k credentials.Keeper, b credentials.Board) { s.credentials.Share(k, b) }

// ServeLogin serves the pages of logins that principals are asked for.
func (s *Set) ServeLogin(w http.ResponseWriter, r *http.Request) { s.credentials.ServeHTTP(w, r) }
