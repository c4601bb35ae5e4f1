package backends

import (
	"context"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// takeTurn waits until no other call that may call back is running on c.
func (c *conn) takeTurn(ctx context.Context, caller *Caller) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return c.d.failure(ctx, context.Cause(ctx), false)
	case <-c.lost():
		return c.d.failure(ctx, c.cause(), false)
	}
	c.mu.Lock()
	c.turnOf = caller
	c.mu.Unlock()
	c.setLevel(ctx, caller.LogLevel)
	return nil
}

// endTurn lets the next call have its turn.
func (c *conn) endTurn() {
	c.mu.Lock()
	c.turnOf = nil
	c.mu.Unlock()
	<-c.turn
}

// setLevel asks a legacy backend for log messages of the caller's level, and waits until
// it has answered. On a connection that callers share, the level is only ever made finer:
// each of them gets those of its own level.
func (c *conn) setLevel(ctx context.Context, level string) {
	if c.modern || level == "" || !wire.Declares(c.peer.Capabilities, "logging") {
		return
	}
	c.levelMu.Lock()
	defer c.levelMu.Unlock()
	if c.level == level || !c.private && c.turn == nil && c.level != "" && wire.Severity(c.level) <= wire.Severity(level) {
		return
	}
	if _, err := c.request(ctx, wire.SetLevel, new(jsonscan.Object).Text("level", level).JSON()); err != nil {
		c.d.o.Log.Info("log level not set", "level", level, "err", err)
		if !isAnswer(err) {
			return
		}
	}
	c.level = level
}

// keepsState reports whether the backend keeps a session for each connection: it gave this
// one an id, or the connection is the session. What a child process keeps, nobody knows.
func (c *conn) keepsState() bool {
	if h, ok := c.transport.(*httpTransport); ok {
		return h.id.Load() != nil
	}
	return c.d.via() == TransportSSE
}
