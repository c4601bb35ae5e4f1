// Package peers passes requests of clients on between the replicas of a cluster, over a port of its own.
//
//	p := peers.New(peers.Options{Ring: ring, Self: members.Self(), Address: members.Address, Serve: here})
//	go p.Listen(l)
//	err := p.Forward(w, r, peers.Passage{To: owner, Session: id, Body: body})
//
// Every request is signed with a key of the ring (purpose peer): who sends it, when and to whom, its method and path, the
// session that it is about, for which principal, and a digest of its body. The receiver refuses what is not signed so, is
// older than half a minute, or has come before, and never passes a request on again: it serves it, or answers that the
// session is not its own (421).
//
// Which address is dialled comes from the table of replicas by the id of one, never from a request.
//
// # Silence
//
// A process that was stopped accepts connections and says nothing. So the receiver answers 102 at once when it begins, and
// whoever waits asks every peer with a request under way, at intervals, whether it is alive. A request that was not begun
// may be served elsewhere (ErrGone). One that was begun is not repeated: its client sees the connection break off. A
// receiver that finds that it has itself stood still looks up what others have taken over meanwhile before it begins.
package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/runs/seal"
)

var (
	// ErrGone says that a replica is not there or says nothing, and has not begun the request.
	ErrGone = errors.New("the replica is gone")
	// ErrMoved says that the session is not that replica's.
	ErrMoved = errors.New("the session is another replica's")
)

// Options are what peers take from their surroundings.
type Options struct {
	// Ring signs requests. Its keys may be replaced at any time.
	Ring *seal.Ring
	// Space is what only replicas of one cluster have in common, such as the schema of their tables.
	Space string
	// Self is this replica.
	Self string
	// Address is where a replica is dialled; false for one that is not there.
	Address func(replica string) (addr string, ok bool)
	// Refresh looks up which sessions others have taken over; it is called when this process has stood still. nil: nothing
	// is looked up.
	Refresh func(context.Context) error
	// Serve serves a request that another replica has passed on. It may call Moved.
	Serve func(http.ResponseWriter, *http.Request, Passage)
	// Timeout is how long a peer may take to be dialled and to say that it is alive: 2 s where it is 0.
	Timeout time.Duration
	// MaxBody is how large a body may be; 4 MiB where it is nil.
	MaxBody func() int64
	// TLS is how peers are dialled and served; nil: without TLS.
	TLS *TLS
	// Forwarded is told of every request that was passed on: its kind (session, stream, live or status), how it ended
	// (ok, gone, moved, aborted or refused), and how long it took until the answer began. May be nil.
	Forwarded func(kind, outcome string, took time.Duration)
	// Log gets what is wrong; nil: nothing is logged.
	Log *slog.Logger
}

// A Passage is a request that one replica passes on to another.
type Passage struct {
	From, To string // replicas
	// Session is what the request is about: the id of a session, or the handle of a call that waits.
	Session string
	// Kind is Session, Stream, Live or Status.
	Kind string
	// Principal is who was let in, as the receiver takes it; nil is nobody.
	Principal []byte
	// Client is the address that the request came from.
	Client string
	// Body is what the request brings.
	Body []byte
}

// Kinds of passages.
const (
	Session = "session"
	Stream  = "stream"
	Live    = "live"
	Status  = "status" // how a replica is, for operators
)

// Peers are the other replicas, as this one speaks with them. They are safe for concurrent use.
type Peers struct {
	o       Options
	log     *slog.Logger
	client  *http.Transport // for requests of clients
	pings   *http.Client    // whether a peer is alive; on connections of its own
	proxy   *httputil.ReverseProxy
	server  *http.Server
	replays replays
	clock   clock
	pause   pause

	life context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	peers map[string]*peer // with requests under way, by replica; guarded by mu
}

const (
	// idlePerPeer is how many connections without a request are kept for each peer.
	idlePerPeer = 64
	defaultBody = 4 << 20
)

// New makes the peers of a replica; Listen lets others come.
func New(o Options) *Peers {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
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
	p.client = p.transport(idlePerPeer)
	p.pings = &http.Client{Transport: p.transport(1), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	p.proxy = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: p.client, FlushInterval: -1, ModifyResponse: p.look, ErrorHandler: failed,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.receive), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return p.life },
		ErrorLog:    slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	p.pause.tick(time.Now())
	p.work.Go(func() { p.pause.watch(p.life) })
	return p
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

// scheme is how peers are spoken with.
func (p *Peers) scheme() string {
	if p.o.TLS != nil {
		return "https"
	}
	return "http"
}

// Listen serves the other replicas until Close, or until l fails.
func (p *Peers) Listen(l net.Listener) error {
	if p.o.TLS != nil {
		l = tls.NewListener(l, p.o.TLS.server)
	}
	err := p.server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown lets no more requests of others in and waits until those that run have ended, or ctx has.
func (p *Peers) Shutdown(ctx context.Context) error { return p.server.Shutdown(ctx) }

// Close breaks off what is under way, both ways.
func (p *Peers) Close() {
	p.end()
	p.server.Close()
	p.work.Wait()
	p.client.CloseIdleConnections()
	p.pings.CloseIdleConnections()
}
