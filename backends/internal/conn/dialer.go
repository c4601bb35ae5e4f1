// Package conn has the connections to one backend: it starts the process or dials the URL, negotiates
// the revision, and carries calls, with the notifications and requests that the backend sends during
// them.
//
// A Dialer opens the connections to a backend and remembers the revision and transport that it
// negotiated. A Conn is one connection, or one session over Streamable HTTP. Package backends decides
// which call runs on which connection, how many there are and when one is opened; a Conn calls it back
// by Options. An open connection that counts against a limit has a Slot, which it releases.
//
// # States of a call
//
//	begin ──► roundTrip ──► answered ──► Finish        given up: the call's context ends, with the reason
//
// A call is registered from begin to Finish, so that lookup finds it by the id of a frame. Over
// Streamable HTTP the calling goroutine writes the request and reads the call's own response stream
// (http.go, events.go). Over stdio and HTTP+SSE one goroutine reads the stream that calls share and
// queues the messages of each call; the calling goroutine takes them from the queue (multiplexer.go).
//
// # Locks
//
// Conn.mu guards the table of calls, the owner of the turn and the listen streams; nothing is waited for
// while it is held. call.mu orders the messages of one call, and is held while its sink handles a
// notification.
package conn

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/child"
	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/config/certs"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/httpclient"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// Transports of a backend.
const (
	TransportStdio = "stdio"
	TransportHTTP  = "streamable-http"
	TransportSSE   = "sse"
)

// Options are the settings and callbacks of a backend's connections.
type Options struct {
	Log         *slog.Logger
	Info        json.RawMessage // clientInfo of the proxy
	MaxMessage  int64           // bounds a response held in memory, in bytes
	Secrets     *secret.Redactor
	Guard       *child.Guard          // of all child processes
	Credentials *credentials.Provider // nil: none

	// Timeout bounds a call; progress notifications extend it.
	Timeout func() time.Duration
	// Spawn runs f on a goroutine that the backend waits for; false once it is closed.
	Spawn func(f func()) bool
	// Notified is called for a notification that belongs to no call, or to all: list changed,
	// resources/updated, and the acknowledgement of a listen stream.
	Notified func(c *Conn, method string, params json.RawMessage)
	// Streaming is called when the event stream of a legacy session over HTTP has been opened, for the
	// first time or again: earlier notifications of the backend were lost.
	Streaming func(c *Conn, first bool)
	// Suspect is called after a failure, to ask for a health check.
	Suspect func()
	// Idle is called when the last running call has ended.
	Idle func()
	// Started is called with the id of each started process, Stderr with each line that one writes
	// to standard error.
	Started func(pid int)
	Stderr  func(line string)
	// Logged is called with the params of every log message notification, of calls, too.
	Logged func(params json.RawMessage)
}

// Counts are counters of a Dialer's connections, and gauges.
type Counts struct {
	Malformed atomic.Uint64 // lines and events that are not JSON-RPC messages
	Dropped   atomic.Uint64 // notifications dropped because their caller was too slow

	Running     atomic.Int64 // calls
	Connections atomic.Int64 // those that have no Slot (Purpose.Counted)
	Children    child.Table  // processes
}

// A Slot is the right to one open connection, or to the stream of a session, of a bounded number.
type Slot interface{ Release() }

// A Dialer opens the connections to one backend, and remembers for the next ones what it
// negotiated: the era, the transport, whether there is a GET stream.
type Dialer struct {
	o         Options
	ctx       context.Context // ends with the backend
	name      string
	cfg       config.Backend
	transport string // as configured
	url       *url.URL
	invalid   error                       // the error in the configured URL; nil for none
	http      *httpclient.Transport       // nil for stdio, and while invalid
	tls       *certs.Backend              // nil where http is nil, and without TLS settings
	headers   atomic.Pointer[http.Header] // replaced, never changed
	installs  bool                        // the command may have to download the server first

	stats      Counts
	nextID     atomic.Int64
	era        atomic.Int32
	answered   atomic.Bool             // a handshake has succeeded
	old        atomic.Bool             // no transport is configured, and the backend supports HTTP+SSE only
	streamless atomic.Bool             // over Streamable HTTP it has no GET stream (405)
	moved      atomic.Pointer[url.URL] // where a permanent redirect has led a connection last
}

// NewDialer returns a Dialer for a backend whose connections end with ctx.
func NewDialer(ctx context.Context, cfg config.Backend, o Options) *Dialer {
	d := &Dialer{o: o, ctx: ctx, name: cfg.Name, cfg: cfg, transport: cfg.Transport, installs: Installs(cfg.Command)}
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

// installTime bounds the first handshake with a command that may have to download the server.
const installTime = 5 * time.Minute

// installers are programs that download what they start if it is not installed.
var installers = []string{"npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "bun", "uvx", "uv", "pipx", "deno", "docker", "podman"}

// Installs reports whether a command may have to download the server that it starts.
func Installs(command string) bool {
	name := filepath.Base(command)
	return slices.Contains(installers, strings.TrimSuffix(strings.TrimSuffix(name, ".cmd"), ".exe"))
}

// StartTime bounds a handshake. It is installTime for the first one with a command that downloads the server: an npx
// that is killed during the download leaves a partial package, which it later treats as complete.
func (d *Dialer) StartTime() time.Duration {
	if d.installs && !d.answered.Load() {
		return max(installTime, d.o.Timeout())
	}
	return d.o.Timeout()
}

// headersOf returns the configured headers of a backend.
func headersOf(cfg config.Backend) *http.Header {
	header := http.Header{}
	for name, v := range cfg.Headers {
		header.Set(name, v)
	}
	return &header
}

// Carries reports whether the headers and the trusted certificates are those of cfg.
func (d *Dialer) Carries(cfg config.Backend) bool {
	return reflect.DeepEqual(*d.headers.Load(), *headersOf(cfg)) && d.tls.Trusts(cfg.TLS.CAText)
}

// Apply sets the headers and trusted certificates of cfg for later requests and connections. It
// reports whether the certificates have changed; idle HTTP connections are then closed.
func (d *Dialer) Apply(cfg config.Backend) (otherTrust bool) {
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

// Configured returns the configured transport, or its default.
func (d *Dialer) Configured() string { return d.transport }

// Counts returns the counters of the connections.
func (d *Dialer) Counts() *Counts { return &d.stats }

// maxMalformed bounds the malformed messages that are logged as warnings; later ones are debug messages.
const maxMalformed = 20

// logMalformed logs a line or event that is not a message.
func (d *Dialer) logMalformed(frame []byte, err error) {
	level := slog.LevelWarn
	if d.stats.Malformed.Add(1) > maxMalformed {
		level = slog.LevelDebug
	}
	d.o.Log.Log(d.ctx, level, "not an MCP message", "err", err, "line", d.brief(frame))
}

// brief returns the start of a backend's text as one line for the log. Secrets are hidden
// before it is cut, because a part of one would not be recognized.
func (d *Dialer) brief(body []byte) string {
	const most, enough = 200, 8 << 10
	s := d.o.Secrets.Text(strings.ToValidUTF8(string(body[:min(len(body), enough)]), "?"))
	return display.Bytes(strings.Join(strings.Fields(s), " "), most)
}
