package backends

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

// probeTimeout is how long a backend may take to answer server/discover before it is
// taken for one that ignores requests ahead of initialize.
const probeTimeout = 3 * time.Second

// era is what is known of a backend's revision from earlier connections.
type era int32

const (
	eraUnknown era = iota
	eraModern
	eraLegacy
)

// purpose is what a connection is opened for.
type purpose struct {
	capabilities json.RawMessage    // declared at initialize
	caller       *Caller            // whom a private session is for; nil for a shared connection
	legacy       bool               // the backend speaks both eras, and a revision with sessions is wanted
	counted      bool               // it is counted elsewhere, not in Counts
	turns        bool               // calls that may call back take turns on it
	credential   credentials.Source // of the principal whom it is for; nil: the backend's
}

// open connects and makes the handshake. A process that cannot bear the probe is started once
// more without it.
func (d *Dialer) open(ctx context.Context, p purpose) (*conn, error) {
	c, err := d.connect(ctx, p)
	if err != nil {
		return nil, err
	}
	probed := d.era.Load() != int32(eraLegacy)
	err = c.handshake(ctx)
	if err != nil && d.mayBeOld(err) && ctx.Err() == nil {
		c.close()
		c, err = d.openOld(ctx, p, err)
	}
	if c == nil {
		return nil, err
	}
	if err != nil && probed && d.transport == TransportStdio && c.ctx.Err() != nil && ctx.Err() == nil {
		c.close()
		d.era.Store(int32(eraLegacy))
		if c, err = d.connect(ctx, p); err != nil {
			return nil, err
		}
		err = c.handshake(ctx)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	c.start()
	return c, nil
}

// connect opens the configured transport.
func (d *Dialer) connect(ctx context.Context, p purpose) (*conn, error) {
	c := d.newConn(p)
	if p.caller != nil {
		c.setIdleCall(p.caller)
	}
	if err := d.openTransport(ctx, c); err != nil {
		c.close()
		return nil, d.failure(ctx, err, false)
	}
	return c, nil
}

func (d *Dialer) openTransport(ctx context.Context, c *conn) error {
	if d.invalid != nil {
		return d.invalid
	}
	switch d.via() {
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
func (c *conn) handshake(ctx context.Context) error {
	if c.d.era.Load() == int32(eraLegacy) || c.d.via() == TransportSSE || c.legacy {
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
func (c *conn) initializeLegacy(ctx context.Context) error {
	err := c.initialize(ctx)
	var answer *wire.Error
	if errors.As(err, &answer) || kindOf(err) == Protocol {
		c.d.era.Store(int32(eraUnknown))
	}
	return err
}

// probe asks server/discover in the background; the channel gets what came of it,
// and is then closed.
func (c *conn) probe(ctx context.Context) <-chan probed {
	answer := make(chan probed, 1)
	c.d.o.Spawn(func() {
		defer close(answer)
		resp, err := c.do(ctx, &Request{Method: wire.Discover, modern: true})
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
func (c *conn) discovered(ctx context.Context, answer <-chan probed) (modern bool, err error) {
	late := time.NewTimer(min(probeTimeout, c.d.o.Timeout()))
	defer late.Stop()
	var p probed
	select {
	case p = <-answer:
	case <-late.C:
		return false, nil
	}
	switch {
	case p.err == nil && c.adoptDiscovered(p.result):
		c.modern = true
		c.d.era.Store(int32(eraModern))
		return true, nil
	case c.ctx.Err() != nil:
		return false, c.d.failure(ctx, c.cause(), false)
	case ctx.Err() != nil, isDialError(p.err), isCredentialError(p.err):
		return false, p.err
	}
	return false, nil
}

// adoptDiscovered takes a server/discover result; false when it does not offer the
// modern revision.
func (c *conn) adoptDiscovered(result []byte) bool {
	peer, legacyToo, ok := listing.Discovered(result)
	if ok {
		c.peer, c.legacyToo = peer, legacyToo
	}
	return ok
}

// initialize is the handshake of the revisions before 2026-07-28.
func (c *conn) initialize(ctx context.Context) error {
	params := new(jsonscan.Object).Text("protocolVersion", wire.Rev2511).Raw("capabilities", c.declared).Raw("clientInfo", c.d.o.Info).JSON()
	result, err := c.request(ctx, wire.Initialize, params)
	if err != nil {
		return err
	}
	c.peer = listing.Initialized(result)
	if !slices.Contains(wire.Legacy, c.peer.Revision) {
		return c.d.errorf(Protocol, "initialize: backend wants protocol version %q, which is none of %v", c.peer.Revision, wire.Legacy)
	}
	if h, ok := c.transport.(*httpTransport); ok && c.peer.Revision >= wire.Rev2506 {
		h.at.Set(wire.HeaderVersion, c.peer.Revision)
	}
	c.notify(wire.Initialized, nil)
	return nil
}

// start starts what a connection needs after its handshake.
func (c *conn) start() {
	if !c.modern {
		c.d.era.CompareAndSwap(int32(eraUnknown), int32(eraLegacy))
	}
	if h, ok := c.transport.(*httpTransport); ok && !c.modern && !c.onDemand {
		h.startStream()
	}
}
