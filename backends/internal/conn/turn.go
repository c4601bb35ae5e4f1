package conn

import (
	"context"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// TakeTurn waits until no other call has the turn on c: with it, the backend's requests and log messages
// belong to caller.
func (c *Conn) TakeTurn(ctx context.Context, caller *Caller) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return c.d.Failure(ctx, context.Cause(ctx), false)
	case <-c.Lost():
		return c.d.Failure(ctx, c.Cause(), false)
	}
	c.mu.Lock()
	c.turnOf = caller
	c.mu.Unlock()
	c.SetLevel(ctx, caller.LogLevel)
	return nil
}

// EndTurn releases the turn.
func (c *Conn) EndTurn() {
	c.mu.Lock()
	c.turnOf = nil
	c.mu.Unlock()
	<-c.turn
}

// SetLevel sends logging/setLevel with the caller's level to a legacy backend, and waits for
// the response. On a connection that callers share without turns the level is only lowered,
// to the most detailed one.
func (c *Conn) SetLevel(ctx context.Context, level string) {
	if c.Modern || level == "" || !wire.Declares(c.Peer.Capabilities, "logging") {
		return
	}
	c.levelMu.Lock()
	defer c.levelMu.Unlock()
	if c.level == level || !c.private && c.turn == nil && c.level != "" && wire.Severity(c.level) <= wire.Severity(level) {
		return
	}
	if _, err := c.Request(ctx, wire.SetLevel, new(jsonscan.Object).Text("level", level).JSON()); err != nil {
		c.d.o.Log.Info("log level not set", "level", level, "err", err)
		if !IsAnswer(err) {
			return
		}
	}
	c.level = level
}

// KeepsState reports whether the backend keeps a session for each connection: it has issued an
// id, or the transport is HTTP+SSE. For stdio it is false: whether a process keeps state is
// not known.
func (c *Conn) KeepsState() bool {
	if h, ok := c.transport.(*httpTransport); ok {
		return h.id.Load() != nil
	}
	return c.d.Via() == TransportSSE
}
