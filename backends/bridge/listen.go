package bridge

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"
	"github.com/vmcp-dev/vmcp/backends/internal/pace"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// A client of 2026-07-28 listens on a stream for as long as it likes. Over the pipe that ends when the client's
// server does, and that is this program: a stream that the endpoint ends, since it is restarted or there is no more
// network, is opened again with the same request. The client has one acknowledgement, the first; in the place of later
// ones it is notified of all that may have changed meanwhile.

// maxSilent is how many streams one after the other may be ended by the endpoint in which nothing was said: then it is
// the endpoint that wants no listener, and the client gets its answer.
const maxSilent = 3

// listening is what is known of a subscriptions/listen over all of its streams.
type listening struct {
	acknowledged bool // the client has the acknowledgement
	open         bool // the present stream is acknowledged
	heard        bool // something came on the present stream
	silent       int  // streams that were ended without that, one after the other
	result       []byte
}

// listen posts a subscriptions/listen, again and again, until the client cancels it or the endpoint refuses it.
func (b *Bridge) listen(c *call) ([]byte, error) {
	l, wait := &listening{}, pace.Backoff{}
	c.listen = l
	for {
		l.open, l.heard = false, false
		answer, err := b.once(c)
		if c.ctx.Err() != nil {
			return nil, nil
		}
		if !l.goesOn(answer, err) {
			return l.last(answer, err)
		}
		if l.open {
			wait.Reset()
			b.say("the endpoint ended the stream of what has changed; it is opened again")
		}
		c.release()
		if pace.Sleep(c.ctx, wait.Next()) != nil {
			return nil, nil
		}
	}
}

// passes notes a notification of the present stream; false: the client has this acknowledgement already.
func (l *listening) passes(method string) bool {
	if method != wire.Acknowledged {
		l.heard = true
		return true
	}
	first := !l.acknowledged
	l.acknowledged, l.open = true, true
	return first
}

// goesOn reports whether a stream is opened again after one that ended so. One that was never acknowledged is not,
// nor one that the endpoint refuses.
func (l *listening) goesOn(answer []byte, err error) bool {
	if !l.acknowledged {
		return false
	}
	if err != nil {
		l.silent = 0
		var status *endpoint.StatusError
		return !errors.As(err, &status) || status.Code >= 500 || status.Code == http.StatusTooManyRequests
	}
	if m, _ := wire.Skim(answer); m.Error != nil {
		return wire.ParseErrorObject(m.Error).Code == wire.Busy
	}
	if l.result = answer; l.heard {
		l.silent = 0
	}
	l.silent++
	return l.silent < maxSilent
}

// last is what the client gets when no stream is opened again: the result of the last one that had one.
func (l *listening) last(answer []byte, err error) ([]byte, error) {
	if l.result != nil && (err != nil || answer == nil) {
		return l.result, nil
	}
	return answer, err
}

// announceAgain notifies the client of everything that it listens to, when a later stream is acknowledged: what changed
// before that nobody has told it.
func (b *Bridge) announceAgain(c *call, acknowledged json.RawMessage) {
	about := new(jsonscan.Object).Raw(wire.MetaSubscriptionID, c.id).JSON()
	honoured := jsonscan.Get(acknowledged, "notifications")
	for _, list := range wire.Lists {
		if string(jsonscan.Get(honoured, list.Filter)) == "true" {
			b.send(wire.Notification(list.Changed, new(jsonscan.Object).Raw("_meta", about).JSON()))
		}
	}
	jsonscan.Elements(jsonscan.Get(honoured, "resourceSubscriptions"), func(uri []byte) bool {
		b.send(wire.Notification(wire.ResUpdated, new(jsonscan.Object).Raw("uri", uri).Raw("_meta", about).JSON()))
		return true
	})
}
