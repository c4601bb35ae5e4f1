package backends

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// This part of the package decides which connection of a backend a call runs on: a shared one, or one that is
// private to its client.
//
// # Who shares what, and why
//
// A backend must behave through the proxy as it does without one. The state that a server
// keeps for one client (a counter, a login, the tools that it has listed) belongs to its
// session; so each client session has its own backend session wherever the server keeps
// sessions. "Can be asked" means that the client has declared capabilities for requests of
// the server (elicitation, sampling, roots) and can receive them:
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
// With a credential for each principal, two principals share nothing: a private session has one
// source of credentials for all its life, and over HTTP its own pool of connections. It counts
// as one connection, over HTTP as well.
//
// A process that supports both eras serves client sessions that can be asked in the legacy
// one. The proxy's own requests (lists, health checks) run on the main connection.

// SharingKind is the kind of connection that a call runs on.
type SharingKind int

const (
	Main    SharingKind = iota // the main connection, concurrently with other calls
	Shared                     // the shared connection without capabilities, of clients that cannot be asked
	InTurns                    // the main connection, one such call at a time
	Private                    // a private session
)

// SharingBackend is the facts about a backend that decide.
type SharingBackend struct {
	Mode         string // sessions in its configuration: auto (or ""), shared or exclusive
	Stdio, SSE   bool   // its transport; HTTP when neither
	PerPrincipal bool   // each principal has its own credential
	Modern       bool   // its main connection is one of 2026-07-28
	LegacyToo    bool   // Modern, and it supports a revision with sessions as well
	KeepsState   bool   // it keeps a session for each connection
}

// SharingCaller is the facts about the client of a call that decide.
type SharingCaller struct {
	Session      string // of the client; "" for a stateless one
	Principal    string
	Capabilities json.RawMessage
	Reachable    bool   // the call has a Sink for the backend's messages
	LogLevel     string // "" for none
}

func (c *SharingCaller) asks() bool { return c.Reachable && wire.CanAskAny(c.Capabilities) }

// Of returns the kind of connection that a call for c runs on.
func (b *SharingBackend) Of(c *SharingCaller) SharingKind {
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
		return Private // in the legacy era: its requests are sent during the call
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

// Key identifies a private session: by client session, or by principal and capabilities. N
// numbers those that serve one call at a time.
type Key struct {
	Session, Principal, Capabilities string
	N                                int
}

// maxCapabilities bounds the capabilities in the key of a private session, in bytes.
const maxCapabilities = 16 << 10

var (
	// errNobody refuses a caller without an identity for an exclusive session.
	errNobody = errors.New("sessions: exclusive needs a separate session for each client, and this caller cannot be distinguished from others: revision 2026-07-28 has no sessions, and the request is not authenticated; set incomingAuth: {type: local} where listen is a loopback address, or a login there; or use a client of an earlier revision, or sessions: auto")
	// ErrSharingTooLarge refuses a caller with more than maxCapabilities bytes of capabilities.
	ErrSharingTooLarge = fmt.Errorf("the declared capabilities are larger than %d bytes", maxCapabilities)
)

// KeyOf returns the key of the private session for a call for c. oneAtATime is set where that
// session serves one call at a time, because a request of the backend does not show which call it
// belongs to.
func (b *SharingBackend) KeyOf(c *SharingCaller) (key Key, oneAtATime bool, err error) {
	if c.Session != "" {
		return Key{Session: c.Session}, false, nil
	}
	exclusive := b.Mode == "exclusive"
	switch {
	case exclusive && c.Principal == "":
		return key, false, errNobody
	case len(c.Capabilities) > maxCapabilities:
		return key, false, ErrSharingTooLarge
	}
	sum := sha256.Sum256(c.Capabilities)
	oneAtATime = !exclusive && (b.Stdio || b.SSE && c.asks())
	return Key{Principal: c.Principal, Capabilities: string(sum[:])}, oneAtATime, nil
}
