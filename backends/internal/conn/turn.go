package conn

import (
	"context"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// TakeTurn waits until no other call that may call back is running on c.
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

// EndTurn lets the next call have its turn.
func (c *Conn) EndTurn() {
	c.mu.Lock()
	c.turnOf = nil
	c.mu.Unlock()
	<-c.turn
}

// SetLevel asks a legacy backend for log messages of the caller's level, and waits until
// it has answered. On a connection that callers share, the level is only ever made finer:
// each of them gets those of its own level.
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

// KeepsState reports whether the backend keeps a session for each connection: it gave this
// one an id, or the connection is the session. What a child process keeps, nobody knows.
func (c *Conn) KeepsState() bool {
	if h, ok := c.transport.(*httpTransport); ok {
		return h.id.Load() != nil
	}
	return c.d.Via() == TransportSSE
}
