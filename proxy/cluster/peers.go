package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/httpclient"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// This part of the package forwards requests of clients between the replicas of a cluster, over a separate port.
//
//	p := peers.New(peers.Options{Ring: ring, Self: members.Self(), Address: members.Address, Serve: here})
//	go p.Listen(l)
//	err := p.Forward(w, r, peers.Passage{To: owner, Session: id, Body: body})
//
// Every request is signed with a key of the ring (purpose seal.Peer): sender, time, receiver, method and path, session,
// principal, and a digest of the body. The receiver refuses a request that is not signed, is older than half a minute
// or was received before. It never forwards a request again: it serves it, or answers 421 if it does not own the
// session.
//
// The address to dial comes from the table of replicas, by id, never from a request.
//
// # Replicas that do not answer
//
// A suspended process accepts connections and sends nothing. So a receiver answers 102 (Processing) when it starts a
// request, and a sender probes, at intervals, each peer to which requests are in flight. A request that was not started
// may be served elsewhere (errGone). One that was started is not repeated: the connection of its client breaks. A
// receiver that finds that it was suspended itself reads which sessions others have adopted before it starts a request.
// A closed port says nothing about requests that were started: their connections end with the process.

var (
	// errGone says that a replica is gone or does not answer, and has not started the request.
	errGone = errors.New("the replica is gone")
	// errMoved says that the replica does not own the session.
	errMoved = errors.New("the session belongs to another replica")
)

// PeerOptions configure Peers.
type PeerOptions struct {
	// Ring signs and verifies requests. Its keys may be replaced at any time.
	Ring *durable.Ring
	// Space identifies the cluster in signatures, for example the schema of its tables.
	Space string
	// Self is the id of this replica.
	Self string
	// Address returns the host:port of a replica; false if it is gone.
	Address func(replica string) (addr string, ok bool)
	// Refresh reads which sessions others have adopted; called after this process was suspended. nil: nothing is read.
	Refresh func(context.Context) error
	// Serve serves a request that another replica has forwarded. It may call Moved.
	Serve func(http.ResponseWriter, *http.Request, Passage)
	// Now is the time that all replicas share; time.Now if it is nil.
	Now func() time.Time
	// Timeout bounds dialling a peer, and a probe; it is also the interval between probes. 2 s if it is 0.
	Timeout time.Duration
	// MaxBody is the size limit of a body in bytes; 4 MiB if it is nil.
	MaxBody func() int64
	// TLS is for both directions; nil: without TLS.
	TLS *TLS
	// Forwarded is called once for every request that Forward was called with: its kind (session, stream, live or
	// status), its outcome (ok, gone, moved, aborted or refused), and the time until the response header. May be nil.
	Forwarded func(kind, outcome string, took time.Duration)
	// Log gets warnings; nil: nothing is logged.
	Log *slog.Logger
}

// A Passage is a request that one replica forwards to another.
type Passage struct {
	From, To string // ids of replicas
	// Session is the id of the session, or the handle of a suspended call, that the request names.
	Session string
	// Kind is one of the constants below.
	Kind string
	// Principal is the authenticated principal, encoded by package proxy/edge; nil if there is none.
	Principal []byte
	// Client is the remote address of the client.
	Client string
	// Body is the body of the request.
	Body []byte
}

// Kinds of forwarded requests.
const (
	Session = "session"
	stream  = "stream"
	live    = "live"
	status  = "status" // the status of one replica, for operators
)

// Peers sends requests to the other replicas and receives theirs. Safe for concurrent use.
type Peers struct {
	o       PeerOptions
	log     *slog.Logger
	pings   *http.Client // probes, on connections of their own
	server  *http.Server
	silent  atomic.Pointer[silencer] // the listener, if it is one
	replays replays
	refused refusals
	clock   clock
	pause   pause
	serving serving

	life context.Context // cancelled by Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	peers map[string]*peer // by replica; guarded by mu
}

const (
	// idlePerPeer is the number of idle connections kept for each peer.
	idlePerPeer = 64
	defaultBody = 4 << 20
)

// NewPeers makes the Peers of a replica. It can forward at once; Listen receives.
func NewPeers(o PeerOptions) *Peers {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxBody == nil {
		o.MaxBody = func() int64 { return defaultBody }
	}
	if o.Refresh == nil {
		o.Refresh = func(context.Context) error { return nil }
	}
	if o.Forwarded == nil {
		o.Forwarded = func(string, string, time.Duration) {}
	}
	p := &Peers{o: o, log: o.Log, peers: map[string]*peer{}}
	p.life, p.end = context.WithCancel(context.Background())
	p.pings = &http.Client{Transport: p.transport(1), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.receive), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaders,
		ConnContext: connContext,
		BaseContext: func(net.Listener) context.Context { return p.life },
		ErrorLog:    slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	p.pause.tick(time.Now())
	p.work.Go(func() { p.pause.watch(p.life) })
	return p
}

// transportTo is a transport for requests of clients to one replica.
func (p *Peers) transportTo(addr string) *httpclient.Transport {
	to := httpclient.New(&url.URL{Scheme: p.scheme(), Host: addr}, p.transport(idlePerPeer))
	to.Ahead = ahead
	return to
}

func (p *Peers) transport(idle int) *http.Transport {
	t := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: p.o.Timeout, KeepAlive: 15 * time.Second}).DialContext,
		MaxIdleConnsPerHost: idle, IdleConnTimeout: time.Minute, DisableCompression: true,
		MaxResponseHeaderBytes: 1 << 20,
	}
	if p.o.TLS != nil {
		t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(ctx, p.o.Timeout)
			defer cancel()
			c, err := t.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			secure := tls.Client(c, p.o.TLS.client(host))
			if err := secure.HandshakeContext(ctx); err != nil {
				c.Close()
				return nil, err
			}
			return secure, nil
		}
	}
	return t
}

// scheme is the URL scheme for peers.
func (p *Peers) scheme() string {
	if p.o.TLS != nil {
		return "https"
	}
	return "http"
}

// Listen serves the requests of other replicas until Close or Shutdown, or until l fails.
func (p *Peers) Listen(l net.Listener) error {
	if s, ok := l.(silencer); ok {
		p.silent.Store(&s)
	}
	l = newEntrance(l)
	if p.o.TLS != nil {
		l = tls.NewListener(l, p.o.TLS.server)
	}
	err := p.server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// A silencer is a listener that can close its connections on which nothing was ever sent.
type silencer interface{ CloseSilent() }

// silentTime is how long Shutdown waits for the first byte on a connection: what was sent before has been read by then.
const silentTime = time.Second

// Shutdown waits until the requests of other replicas in flight have ended, or ctx has. The port stays open until then, so
// that their senders see that this replica lives; new requests are refused by Options.Serve.
func (p *Peers) Shutdown(ctx context.Context) error {
	if err := p.serving.wait(ctx); err != nil {
		return err
	}
	if s := p.silent.Load(); s != nil {
		late := time.AfterFunc(silentTime, (*s).CloseSilent)
		defer late.Stop()
	}
	return p.server.Shutdown(ctx)
}

// Close cancels what is in flight, in both directions, and waits for the goroutines.
func (p *Peers) Close() {
	p.end()
	p.server.Close()
	p.work.Wait()
	p.pings.CloseIdleConnections()
}
