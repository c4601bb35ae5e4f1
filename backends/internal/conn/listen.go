package conn

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/encode"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// ErrRenew ends a listen stream that must be opened with other uris.
var ErrRenew = errors.New("subscriptions changed")

// renewGrace is how long a cancelled listen request may take to end before the next one.
const renewGrace = 500 * time.Millisecond

// Listen holds one listen stream until it ends, or, with errRenew, until renew says that other
// uris are wanted.
func (c *Conn) Listen(params json.RawMessage, renew <-chan struct{}) error {
	k := c.begin(c.ctx, &Request{Method: wire.Listen, Params: params}, 0)
	defer k.Finish()
	over := make(chan struct{})
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer close(over)
	renewing.Go(func() { k.renewListen(renew, over) })
	resp, err := c.transport.roundTrip(k)
	if err == nil {
		err = resp.Close()
	}
	if k.renewed.Load() {
		return ErrRenew
	}
	return err
}

// renewListen ends a listen stream when other uris are wanted. On a shared stream of frames
// it lets the backend end the old request before there is a new one: some keep one set
// of subscriptions for both.
func (c *call) renewListen(renew, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-renew:
	}
	c.renewed.Store(true)
	if c.queue != nil {
		c.conn.send(encode.Cancelled(c.id))
		late := time.NewTimer(renewGrace)
		defer late.Stop()
		select {
		case <-over:
			return
		case <-late.C:
		}
	}
	c.clock.Cancel(ErrRenew)
}
