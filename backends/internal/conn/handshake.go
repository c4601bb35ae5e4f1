package conn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/backends/credentials"
	"github.com/vmcp-dev/vmcp/backends/internal/listing"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// ProbeTimeout is how long a backend may take to answer server/discover before it is
// taken for one that ignores requests ahead of initialize.
const ProbeTimeout = 3 * time.Second

// era is what is known of a backend's revision from earlier connections.
type era int32

const (
	eraUnknown era = iota
	eraModern
	eraLegacy
)

// Purpose is what a connection is opened for.
type Purpose struct {
	Capabilities json.RawMessage    // declared at initialize
	Caller       *Caller            // whom a private session is for; nil for a shared connection
	Legacy       bool               // the backend speaks both eras, and a revision with sessions is wanted
	Counted      bool               // it is counted elsewhere, not in Counts
	Turns        bool               // calls that may call back take turns on it
	Credential   credentials.Source // of the principal whom it is for; nil: the backend's
}

// Open connects and makes the handshake. A process that cannot bear the probe is started once
// more without it.
func (d *Dialer) Open(ctx context.Context, p Purpose) (*Conn, error) {
	c, err := d.connect(ctx, p)
	if err != nil {
		return nil, err
	}
	probed := d.era.Load() != int32(eraLegacy)
	err = c.handshake(ctx)
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
		err = c.handshake(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.start()
	return c, nil
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
			d.old.Store(false) // it may have been upgraded since
			return err
		}
		startMultiplexer(c, frames)
	default:
		c.transport = newHTTPTransport(c, d.url)
	}
	return nil
}

// handshake finds out which revision the backend speaks and initializes it in that.
func (c *Conn) handshake(ctx context.Context) error {
	if c.d.era.Load() == int32(eraLegacy) || c.d.Via() == TransportSSE || c.legacy {
		return c.initializeLegacy(ctx)
	}
	probing, stop := context.WithCancel(ctx)
	defer stop()
	answer := c.probe(probing)
	if modern, err := c.discovered(ctx, answer); modern || err != nil {
		return err
	}
	err := c.initializeLegacy(ctx)
	if err != nil && c.ctx.Err() == nil {
		// A slow start may have let the probe's time run out on a modern backend.
		if modern, _ := c.discovered(ctx, answer); modern {
			return nil
		}
	}
	return err
}

// initializeLegacy initializes a legacy backend. One that refuses has perhaps been upgraded since:
// the next attempt probes again.
func (c *Conn) initializeLegacy(ctx context.Context) error {
	err := c.initialize(ctx)
	var answer *wire.Error
	if errors.As(err, &answer) || KindOf(err) == Protocol {
		c.d.era.Store(int32(eraUnknown))
	}
	return err
}

// probe asks server/discover in the background; the channel gets what came of it,
// and is then closed.
func (c *Conn) probe(ctx context.Context) <-chan probed {
	answer := make(chan probed, 1)
	c.d.o.Spawn(func() {
		defer close(answer)
		resp, err := c.Do(ctx, &Request{Method: wire.Discover, modern: true})
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

// discovered waits a moment for the probe and takes a modern backend's answer. Only a
// backend that is gone is an error, or a credential that is not to be had: whatever else
// comes back, or does not, means an older one.
func (c *Conn) discovered(ctx context.Context, answer <-chan probed) (modern bool, err error) {
	late := time.NewTimer(min(ProbeTimeout, c.d.o.Timeout()))
	defer late.Stop()
	var p probed
	select {
	case p = <-answer:
	case <-late.C:
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

// adoptDiscovered takes a server/discover result; false when it does not offer the
// modern revision.
func (c *Conn) adoptDiscovered(result []byte) bool {
	peer, legacyToo, ok := listing.Discovered(result)
	if ok {
		c.Peer, c.LegacyToo = peer, legacyToo
	}
	return ok
}

// initialize is the handshake of the revisions before 2026-07-28.
func (c *Conn) initialize(ctx context.Context) error {
	params := new(jsonscan.Object).Text("protocolVersion", wire.Rev2511).Raw("capabilities", c.declared).Raw("clientInfo", c.d.o.Info).JSON()
	result, err := c.Request(ctx, wire.Initialize, params)
	if err != nil {
		return err
	}
	c.Peer = listing.Initialized(result)
	if !slices.Contains(wire.Legacy, c.Peer.Revision) {
		return c.d.Errorf(Protocol, "initialize: backend wants protocol version %q, which is none of %v", c.Peer.Revision, wire.Legacy)
	}
	if h, ok := c.transport.(*httpTransport); ok && c.Peer.Revision >= wire.Rev2506 {
		h.at.Set(wire.HeaderVersion, c.Peer.Revision)
	}
	c.notify(wire.Initialized, nil)
	return nil
}

// start starts what a connection needs after its handshake.
func (c *Conn) start() {
	if !c.Modern {
		c.d.era.CompareAndSwap(int32(eraUnknown), int32(eraLegacy))
	}
	if h, ok := c.transport.(*httpTransport); ok && !c.Modern && !c.OnDemand {
		h.startStream()
	}
}
