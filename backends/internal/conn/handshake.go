package conn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// ProbeTimeout bounds the wait for the response to server/discover. A backend without
// one is treated as legacy: some ignore requests before initialize.
const ProbeTimeout = 3 * time.Second

const (
	// knownProbe is ProbeTimeout for a backend that has responded to server/discover before.
	knownProbe = 4 * ProbeTimeout
	// lateProbe is how long after the response to initialize the one to the earlier server/discover is waited for: a
	// server may handle both concurrently.
	lateProbe = 500 * time.Millisecond
)

// era is the era of a backend as negotiated by earlier connections.
type era int32

const (
	eraUnknown era = iota
	eraModern
	eraLegacy
)

// Purpose is what a connection is opened for, and how.
type Purpose struct {
	Capabilities json.RawMessage    // declared at initialize
	Caller       *Caller            // the client of a private session; nil for a shared connection
	Legacy       bool               // negotiate a legacy revision, which has sessions, with a backend of both eras
	Counted      bool               // counted by its Slot, not in Counts
	Turns        bool               // calls whose clients have capabilities take turns on it (TakeTurn)
	Credential   credentials.Source // of a principal; nil: the shared one
}

// Open connects and makes the handshake. A process that ends because of the probe is started once more without it. A
// modern backend that responded to the probe too late is connected to once more, as a modern one: the revision must not
// depend on the load of the machine.
func (d *Dialer) Open(ctx context.Context, p Purpose) (*Conn, error) {
	c, err := d.connect(ctx, p)
	if err != nil {
		return nil, err
	}
	probed := d.era.Load() != int32(eraLegacy)
	slow, err := c.handshake(ctx)
	if slow {
		if c, err = d.openSlow(ctx, c, p); c == nil {
			return nil, err
		}
	}
	if err != nil && d.mayBeOld(err) && ctx.Err() == nil {
		c.Close()
		c, err = d.openOld(ctx, p, err)
	}
	if c == nil {
		return nil, err
	}
	if err != nil && probed && d.transport == TransportStdio && c.ctx.Err() != nil && ctx.Err() == nil {
		c.Close()
		d.era.Store(int32(eraLegacy))
		if c, err = d.connect(ctx, p); err != nil {
			return nil, err
		}
		_, err = c.handshake(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	d.answered.Store(true)
	c.start()
	return c, nil
}

// openSlow reconnects to a backend that was initialized as a legacy one before it responded to
// server/discover.
func (d *Dialer) openSlow(ctx context.Context, old *Conn, p Purpose) (*Conn, error) {
	old.Close()
	d.answered.Store(true)
	d.era.Store(int32(eraModern))
	c, err := d.connect(ctx, p)
	if err != nil {
		return nil, err
	}
	slow, err := c.handshake(ctx)
	if slow { // too slow again: all connections use the legacy revision
		d.era.Store(int32(eraLegacy))
	}
	return c, err
}

// connect opens the configured transport.
func (d *Dialer) connect(ctx context.Context, p Purpose) (*Conn, error) {
	c := d.newConn(p)
	if p.Caller != nil {
		c.setIdleCall(p.Caller)
	}
	if err := d.openTransport(ctx, c); err != nil {
		c.Close()
		return nil, d.Failure(ctx, err, false)
	}
	return c, nil
}

func (d *Dialer) openTransport(ctx context.Context, c *Conn) error {
	if d.invalid != nil {
		return d.invalid
	}
	switch d.Via() {
	case TransportStdio:
		child, err := d.startChild()
		if err != nil {
			return err
		}
		startMultiplexer(c, child)
	case TransportSSE:
		frames, err := openSSE(ctx, c, d.url)
		if err != nil {
			d.old.Store(false) // it may support Streamable HTTP by now
			return err
		}
		startMultiplexer(c, frames)
	default:
		c.transport = newHTTPTransport(c, d.url)
	}
	return nil
}

// handshake negotiates the revision and initializes the backend. slow is set when the backend was initialized as a
// legacy one, and has then responded to server/discover as a modern one.
func (c *Conn) handshake(ctx context.Context) (slow bool, err error) {
	if c.d.era.Load() == int32(eraLegacy) || c.d.Via() == TransportSSE || c.legacy {
		return false, c.initializeLegacy(ctx)
	}
	probing, stop := context.WithCancel(ctx)
	defer stop()
	answer := c.probe(probing)
	limit := ProbeTimeout
	if c.d.era.Load() == int32(eraModern) {
		limit = knownProbe
	}
	if modern, err := c.discovered(ctx, answer, min(limit, c.d.o.Timeout())); modern || err != nil {
		return false, err
	}
	err = c.initializeLegacy(ctx)
	limit = lateProbe
	if err != nil {
		limit = ProbeTimeout
	}
	if c.ctx.Err() != nil {
		return false, err
	}
	switch modern, _ := c.discovered(ctx, answer, min(limit, c.d.o.Timeout())); {
	case modern && err != nil:
		return false, nil // it is modern only, and refused initialize
	case modern:
		c.Modern = false // this connection was initialized as a legacy one
		return true, nil
	}
	return false, err
}

// initializeLegacy initializes a legacy backend. After an error response the next attempt probes
// again, because the backend may have been upgraded.
func (c *Conn) initializeLegacy(ctx context.Context) error {
	err := c.initialize(ctx)
	var answer *wire.Error
	if errors.As(err, &answer) || KindOf(err) == Protocol {
		c.d.era.Store(int32(eraUnknown))
	}
	return err
}

// probe sends server/discover in the background; the channel receives its outcome,
// and is then closed.
func (c *Conn) probe(ctx context.Context) <-chan probed {
	answer := make(chan probed, 1)
	c.d.o.Spawn(func() {
		defer close(answer)
		resp, err := c.DoWithin(ctx, &Request{Method: wire.Discover, modern: true}, ProbeTimeout+c.d.StartTime())
		if err != nil {
			answer <- probed{err: err}
			return
		}
		defer resp.Close()
		result, err := resp.Bytes(c.d.o.MaxMessage)
		answer <- probed{bytes.Clone(result), err}
	})
	return answer
}

// probed is the outcome of a probe.
type probed struct {
	result []byte
	err    error
}

// discovered waits for the probe, at most limit, and adopts a modern backend's result. A
// lost connection and a missing credential are errors; any other outcome, or none, means a
// legacy backend.
func (c *Conn) discovered(ctx context.Context, answer <-chan probed, limit time.Duration) (modern bool, err error) {
	late := time.NewTimer(limit)
	defer late.Stop()
	var p probed
	select {
	case p = <-answer:
	case <-late.C:
		c.d.era.CompareAndSwap(int32(eraModern), int32(eraUnknown))
		return false, nil
	}
	switch {
	case p.err == nil && c.adoptDiscovered(p.result):
		c.Modern = true
		c.d.era.Store(int32(eraModern))
		return true, nil
	case c.ctx.Err() != nil:
		return false, c.d.Failure(ctx, c.Cause(), false)
	case ctx.Err() != nil, IsDialError(p.err), IsCredentialError(p.err):
		return false, p.err
	}
	return false, nil
}

// adoptDiscovered sets the peer from a server/discover result; false when it does not
// offer the modern revision.
func (c *Conn) adoptDiscovered(result []byte) bool {
	peer, legacyToo, ok := discovered(result)
	if ok {
		c.Peer, c.LegacyToo = peer, legacyToo
	}
	return ok
}

// initialize is the handshake of the revisions before 2026-07-28.
func (c *Conn) initialize(ctx context.Context) error {
	params := new(jsonscan.Object).Text("protocolVersion", wire.Rev2511).Raw("capabilities", c.declared).Raw("clientInfo", c.d.o.Info).JSON()
	result, err := c.requestWithin(ctx, wire.Initialize, params, c.d.StartTime())
	if err != nil {
		return err
	}
	c.Peer = initialized(result)
	if !slices.Contains(wire.Legacy, c.Peer.Revision) {
		return c.d.Errorf(Protocol, "initialize: backend answers with protocol version %q, want one of %v", c.Peer.Revision, wire.Legacy)
	}
	if h, ok := c.transport.(*httpTransport); ok && c.Peer.Revision >= wire.Rev2506 {
		h.at.Set(wire.HeaderVersion, c.Peer.Revision)
	}
	c.notify(wire.Initialized, nil)
	return nil
}

// start records the era after the handshake and opens the event stream of a shared connection.
func (c *Conn) start() {
	if !c.Modern {
		c.d.era.CompareAndSwap(int32(eraUnknown), int32(eraLegacy))
	}
	if h, ok := c.transport.(*httpTransport); ok && !c.Modern && !c.OnDemand {
		h.startStream()
	}
}
