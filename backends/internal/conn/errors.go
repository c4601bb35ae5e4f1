package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Kind classifies an Error, above all by whether the call may have been executed.
type Kind int

const (
	// Unavailable: the call was certainly not executed. It may be retried.
	Unavailable Kind = iota + 1
	// Timeout: no response within the deadline. It may have been executed.
	Timeout
	// Interrupted: the connection broke after the call was sent. It may have been executed.
	Interrupted
	// Protocol: the backend's response is not valid MCP.
	Protocol
	// Cancelled: the caller cancelled the call.
	Cancelled
	// TooLarge: the request or the response exceeds a limit.
	TooLarge
	// Denied: the credential for the call was refused, or a login is needed. It was not
	// executed.
	Denied
)

var kindNames = [...]string{"unknown", "unavailable", "timeout", "interrupted", "protocol", "cancelled", "too large", "denied"}

func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return kindNames[0]
	}
	return kindNames[k]
}

// Error is the failure of a call without a response. A JSON-RPC error of the
// backend is a *wire.Error instead, unchanged.
type Error struct {
	Backend string
	Kind    Kind
	Err     error
}

func (e *Error) Error() string {
	if n, ok := e.Err.(*NotUp); ok {
		return "backend " + e.Backend + " " + n.Error()
	}
	return "backend " + e.Backend + ": " + e.Err.Error()
}

// NotUp is the cause of an Unavailable error: the backend is not connected.
type NotUp struct {
	Starting bool
	Disabled bool  // by the configuration
	Cause    error // why it is down
}

func (n *NotUp) Error() string {
	switch {
	case n.Starting:
		return "is starting; retry in a moment"
	case n.Disabled:
		return "is disabled in the configuration"
	case n.Cause == nil:
		return "is down"
	}
	return "is down: " + n.Cause.Error()
}

// Unwrap returns why the backend is down.
func (n *NotUp) Unwrap() error { return n.Cause }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

var (
	ErrDeadline    = errors.New("no response within the deadline")
	ErrClosed      = errors.New("closed")
	ErrSessionGone = errors.New("the backend has forgotten the session")
)

// lostError is the cause of calls on a connection that is closed because it was lost: ErrClosed with
// the reason as text. It does not wrap the reason, by which a call would be classified wrongly.
type lostError struct{ text string }

func (e *lostError) Error() string { return e.text }

// Is reports whether target is ErrClosed.
func (e *lostError) Is(target error) bool { return target == ErrClosed }

func closedBecause(cause error) error {
	if cause == nil || cause == ErrClosed {
		return ErrClosed
	}
	return &lostError{cause.Error()}
}

// Errorf builds an Error of this backend.
func (d *Dialer) Errorf(k Kind, format string, args ...any) *Error {
	return &Error{Backend: d.name, Kind: k, Err: fmt.Errorf(format, args...)}
}

// Failure returns err as an *Error, or unchanged if it is classified already. sent says whether the request
// may have reached the backend.
func (d *Dialer) Failure(ctx context.Context, err error, sent bool) error {
	switch {
	case KindOf(err) != 0, IsAnswer(err):
		return err
	case ctx.Err() != nil:
		return d.stopped(ctx, sent)
	case !sent || IsDialError(err):
		return &Error{Backend: d.name, Kind: Unavailable, Err: err}
	}
	return &Error{Backend: d.name, Kind: Interrupted, Err: err}
}

// stopped returns the error of a call whose context has ended: by its timeout, by the
// caller's deadline, because the backend is being closed, or because the caller
// cancelled.
func (d *Dialer) stopped(ctx context.Context, sent bool) error {
	cause := context.Cause(ctx)
	kind := Cancelled
	switch {
	case errors.Is(cause, ErrDeadline), errors.Is(cause, context.DeadlineExceeded):
		kind, cause = Timeout, ErrDeadline
	case errors.Is(cause, ErrClosed) && !sent:
		kind = Unavailable
	case errors.Is(cause, ErrClosed), errors.Is(cause, ErrFull), errors.Is(cause, errReplies):
		kind = Interrupted
	}
	return &Error{Backend: d.name, Kind: kind, Err: cause}
}

// IsDialError reports whether err occurred before a connection was established.
func IsDialError(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	return errors.As(err, &dns) || errors.As(err, &cert) || errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

// Bare returns err without the prefix with the backend's name, for texts that name it
// already.
func Bare(err error) error {
	if e, ok := err.(*Error); ok {
		return e.Err
	}
	return err
}

// IsAnswer reports whether err is an error response of the backend.
func IsAnswer(err error) bool {
	var answer *wire.Error
	return errors.As(err, &answer)
}

// KindOf returns err's Kind, or 0 when it has none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}
