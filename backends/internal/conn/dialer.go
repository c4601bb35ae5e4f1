// Package conn has the connections to one backend: it starts the process or dials the URL, finds out
// which revision is spoken, and carries calls with all that comes beside their answers.
//
// A Dialer opens connections of a backend and remembers what it found out about that. A Conn is one
// of them, or one session over HTTP. Which call runs on which connection, how many there are and
// when there is a new one is decided by who opens them. A connection calls back by Options: it needs
// goroutines that are waited for, and reports what the backend notified it of. What it counts as
// while it is open is a Slot to it, which it releases.
//
// # Calls
//
//	begin ──► roundTrip ──► answered ──► Finish        given up: the call's context ends, with the reason
//
// A call is registered from begin to Finish, so that a frame finds it by its id. Over Streamable HTTP
// the calling goroutine writes the request and reads the call's own stream (http.go, events.go). Over
// stdio and HTTP+SSE one reader has the stream that calls share and queues what is for each of
// them, and the calling goroutine takes it from there (multiplexer.go).
//
// # Locks
//
// Conn.mu guards the table of calls and who holds the turn; nothing is waited for while it
// is held. call.mu orders what is delivered to one call, and is held while the sink takes a notification.
package conn

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/child"
	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/certs"
	"github.com/vmcp-dev/vmcp/internal/clip"
	"github.com/vmcp-dev/vmcp/internal/httpclient"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// Transports of a backend.
const (
	TransportStdio = "stdio"
	TransportHTTP  = "streamable-http"
	TransportSSE   = "sse"
)

// Options are what connections need of the backend that they are to.
type Options struct {
	Log         *slog.Logger
	Info        json.RawMessage // clientInfo of the proxy
	MaxMessage  int64           // bounds an answer that must be held in memory
	Secrets     *secret.Redactor
	Guard       *child.Guard          // of all child processes
	Credentials *credentials.Provider // nil: none

	// Timeout is how long a call may take that makes no progress.
	Timeout func() time.Duration
	// Spawn runs f on a goroutine that the backend waits for; false once it is closed.
	Spawn func(f func()) bool
	// Notified takes a notification that belongs to no call or concerns all of them: of lists
	// and resources that changed, and that such notifications will come.
	Notified func(c *Conn, method string, params json.RawMessage)
	// Streaming is called when the stream of a legacy session over HTTP is open, for the first time or
	// again: what the backend announced before went to nobody.
	Streaming func(c *Conn, first bool)
	// Suspect is called when something went wrong that a health check may explain.
	Suspect func()
	// Idle is called when the last running call has ended.
	Idle func()
	// Started and Stderr take the id of a process that was started, and lines that one writes to
	// standard error.
	Started func(pid int)
	Stderr  func(line string)
	// Logged takes every log message of the protocol, of calls, too.
	Logged func(params json.RawMessage)
}

// Counts are counters of a Dialer's connections, and gauges.
type Counts struct {
	Malformed atomic.Uint64 // lines and events that were no message
	Dropped   atomic.Uint64 // notifications for callers that were too slow to take them

	Running     atomic.Int64 // calls
	Connections atomic.Int64 // those that do not count as something else (purpose.counted)
	Children    child.Table  // processes
}

// A Slot is what an open connection, or the stream of a session, counts as with whoever bounds
// their number.
type Slot interface{ Release() }

// A Dialer opens the connections to one backend, and remembers for the next ones what it found
// out about that: the era, the transport, whether there are streams that belong to no call.
type Dialer struct {
	o         Options
	ctx       context.Context // ends with the backend
	name      string
	cfg       config.Backend
	transport string // as configured
	url       *url.URL
	invalid   error                       // why the configuration cannot work
	http      *httpclient.Transport       // nil for stdio, and while invalid
	tls       *certs.Backend              // nil where http is, and where the configuration says nothing
	headers   atomic.Pointer[http.Header] // replaced, never changed

	stats      Counts
	nextID     atomic.Int64
	era        atomic.Int32
	old        atomic.Bool // no transport is configured, and it was found to speak only HTTP+SSE
	streamless atomic.Bool // over HTTP it has no stream for what belongs to no call
}

// NewDialer returns a Dialer for a backend whose connections end with ctx.
func NewDialer(ctx context.Context, cfg config.Backend, o Options) *Dialer {
	d := &Dialer{o: o, ctx: ctx, name: cfg.Name, cfg: cfg, transport: cfg.Transport}
	if d.transport == "" {
		d.transport = TransportHTTP
		if cfg.Command != "" {
			d.transport = TransportStdio
		}
	}
	d.headers.Store(headersOf(cfg))
	if d.transport != TransportStdio {
		if d.url, d.invalid = endpoint.Parse(cfg.URL); d.invalid == nil {
			d.tls = certs.ForBackend(cfg.TLS, d.url.Hostname(), o.Log)
			d.http = endpoint.Transport(d.url, d.tls.Config())
		}
	}
	return d
}

// headersOf are the configured headers of a backend.
func headersOf(cfg config.Backend) *http.Header {
	header := http.Header{}
	for name, v := range cfg.Headers {
		header.Set(name, v)
	}
	return &header
}

// Carries reports whether requests have the headers, and connections the trust, that cfg wants.
func (d *Dialer) Carries(cfg config.Backend) bool {
	return reflect.DeepEqual(*d.headers.Load(), *headersOf(cfg)) && d.tls.Trusts(cfg.TLS.CAText)
}

// Carry has requests and connections have what cfg wants from now on. It reports whether other
// certificates are trusted than before: connections that were made with those are not used for
// another request.
func (d *Dialer) Carry(cfg config.Backend) (otherTrust bool) {
	d.headers.Store(headersOf(cfg))
	if d.tls.Trusts(cfg.TLS.CAText) {
		return false
	}
	d.tls.Trust(cfg.TLS.CAText)
	d.http.CloseIdleConnections()
	return true
}

// CloseIdle closes the HTTP connections that no request uses.
func (d *Dialer) CloseIdle() {
	if d.http != nil {
		d.http.CloseIdleConnections()
	}
}

// Configured is the transport of the configuration, or its default.
func (d *Dialer) Configured() string { return d.transport }

// Counts are the counters of the connections.
func (d *Dialer) Counts() *Counts { return &d.stats }

// maxMalformed is how many malformed messages are worth a warning.
const maxMalformed = 20

// logMalformed logs what a backend sent instead of a frame.
func (d *Dialer) logMalformed(frame []byte, err error) {
	level := slog.LevelWarn
	if d.stats.Malformed.Add(1) > maxMalformed {
		level = slog.LevelDebug
	}
	d.o.Log.Log(d.ctx, level, "not an MCP message", "err", err, "line", d.brief(frame))
}

// brief is the start of what a backend sent as one line for the log. Secrets are hidden
// before it is cut: half of one would not be found any more.
func (d *Dialer) brief(body []byte) string {
	const most, enough = 200, 8 << 10
	s := d.o.Secrets.Text(strings.ToValidUTF8(string(body[:min(len(body), enough)]), "?"))
	return clip.Bytes(strings.Join(strings.Fields(s), " "), most)
}
