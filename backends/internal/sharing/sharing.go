// Package sharing decides which connection of a backend a call runs on: beside others, or one that
// is its client's alone.
//
// # Who shares what, and why
//
// A client must have through the proxy what it would have without it. Whatever a server
// keeps for one client (a counter, a login, the tools that it showed) it keeps in its
// session; so a client's session gets a session of its own wherever the server keeps one:
//
//	backend                      caller                            connection
//	2026-07-28 over HTTP         everybody                         main
//	HTTP that issues no ids      cannot be asked                   shared (declares nothing)
//	                             can be asked                      main (declares everything)
//	HTTP that issues ids, SSE    a client session                  private, by session
//	                             2026-07-28, with a principal      private, by principal and capabilities
//	                             2026-07-28, anonymous, can be asked   private, shared by all of the same capabilities
//	                             2026-07-28, anonymous             shared
//	stdio                        cannot be asked                   main
//	                             a client session, can be asked    private, by session
//	                             2026-07-28, can be asked          private, one call at a time
//	any of these that keeps state, `sessions: exclusive`
//	                             a client session                  private, by session
//	                             2026-07-28, with a principal      private, by principal and capabilities
//	                             2026-07-28, anonymous             refused: nothing tells such callers apart
//	`sessions: shared`           can be asked                      main, one such call at a time
//	                             everybody else                    main
//	any of these, with a credential for each principal
//	                             a client session                  private, by session
//	                             2026-07-28                        private, by principal and capabilities
//
// With a credential for each principal nothing is shared between two of them: a private
// session has its source of credentials from its beginning to its end, and over HTTP a pool
// of connections of its own. It counts as one connection even over HTTP.
//
// A process that speaks both eras serves sessions that can be asked in the older one. The
// proxy's own requests (lists, health) run on the main connection.
package sharing

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Kind is which connection a call runs on.
type Kind int

const (
	Main    Kind = iota // the main connection, beside others
	Shared              // one that declares nothing, beside others that cannot be asked
	InTurns             // the main connection, beside no other such call
	Private             // its client's own
)

// Backend is what decides of a backend.
type Backend struct {
	Mode         string // sessions in its configuration: auto (or ""), shared or exclusive
	Stdio, SSE   bool   // its transport; HTTP when neither
	PerPrincipal bool   // each principal has a credential of its own with it
	Modern       bool   // its main connection is one of 2026-07-28
	LegacyToo    bool   // that, and it speaks a revision with sessions as well
	KeepsState   bool   // it keeps a session for each connection
}

// Caller is what decides of whom a call is for.
type Caller struct {
	Session      string // of the client; "" for a stateless one
	Principal    string
	Capabilities json.RawMessage
	Reachable    bool   // there is a place for what the backend sends while the call runs
	LogLevel     string // "" when it wants no log messages
}

func (c *Caller) asks() bool { return c.Reachable && wire.CanAskAny(c.Capabilities) }

// Of says which connection a call for c runs on.
func (b *Backend) Of(c *Caller) Kind {
	switch {
	case b.PerPrincipal:
		return Private
	case b.Modern && !b.Stdio:
		return Main
	case b.Mode == "exclusive" && (b.Stdio || b.KeepsState):
		return Private
	}
	levels, asks := c.Reachable && c.LogLevel != "", c.asks()
	switch {
	case b.Modern && b.LegacyToo && b.Mode != "shared" && c.Session != "" && asks:
		return Private // its requests come in mid-call, as without a proxy
	case b.Modern && levels, !b.Modern && b.Mode == "shared" && (levels || asks):
		return InTurns
	case b.Modern, b.Mode == "shared":
		return Main
	case b.Stdio && (levels || asks):
		return Private
	case b.Stdio:
		return Main
	case b.KeepsState && (asks || c.Session != "" || c.Principal != ""):
		return Private
	case asks:
		return Main
	}
	return Shared
}

// Key names whom a private session belongs to: a client session, or a principal with certain
// capabilities. N tells those apart that serve one call at a time.
type Key struct {
	Session, Principal, Capabilities string
	N                                int
}

// maxCapabilities bounds the capabilities that a private session is kept by.
const maxCapabilities = 16 << 10

var (
	// ErrNobody refuses a caller that an exclusive session cannot be kept for.
	ErrNobody = errors.New("sessions: exclusive gives every client a session of its own, and this caller can be told from no other: revision 2026-07-28 has no sessions, and the request is not authenticated; use a client of an earlier revision, or set sessions: auto")
	// ErrTooLarge refuses a caller whose capabilities a session cannot be kept by.
	ErrTooLarge = fmt.Errorf("the declared capabilities are larger than %d bytes", maxCapabilities)
)

// KeyOf says whose private session a call for c runs in; oneAtATime that it serves one call at a
// time: where a question does not say which call it belongs to.
func (b *Backend) KeyOf(c *Caller) (key Key, oneAtATime bool, err error) {
	if c.Session != "" {
		return Key{Session: c.Session}, false, nil
	}
	exclusive := b.Mode == "exclusive"
	switch {
	case exclusive && c.Principal == "":
		return key, false, ErrNobody
	case len(c.Capabilities) > maxCapabilities:
		return key, false, ErrTooLarge
	}
	sum := sha256.Sum256(c.Capabilities)
	oneAtATime = !exclusive && (b.Stdio || b.SSE && c.asks())
	return Key{Principal: c.Principal, Capabilities: string(sum[:])}, oneAtATime, nil
}
