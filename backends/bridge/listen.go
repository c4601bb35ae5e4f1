package bridge

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// A client of 2026-07-28 keeps a listen stream open. Over a pipe it expects the stream to end only with its server,
// which is this program: a stream that the endpoint ends, because of a restart or a network failure, is opened again
// with the same request. The client gets the first acknowledgement only; instead of later ones it is notified that
// everything it listens to may have changed.

// maxSilent bounds the streams in a row that the endpoint ends without a notification: then the request is not
// repeated, and the client gets the response.
const maxSilent = 3

// listening is the state of a subscriptions/listen over all of its streams.
type listening struct {
	acknowledged bool // the client has the acknowledgement
	open         bool // the present stream is acknowledged
	heard        bool // a notification was received on the present stream
	silent       int  // streams in a row that ended without one
	result       []byte
}

// listen posts a subscriptions/listen, and again when its stream ends, until the client cancels it or the
// endpoint refuses it.
func (b *bridge) listen(c *call) ([]byte, error) {
	l, wait := &listening{}, endpoint.Backoff{}
	c.listen = l
	for {
		l.open, l.heard = false, false
		answer, err := b.once(c)
		if c.ctx.Err() != nil {
			return nil, nil
		}
		if !l.reopens(answer, err) {
			return l.last(answer, err)
		}
		if l.open {
			wait.Reset()
			b.say("the endpoint ended the subscriptions/listen stream; reopening it")
		}
		c.release()
		if endpoint.Sleep(c.ctx, wait.Next()) != nil {
			return nil, nil
		}
	}
}

// passes records a notification of the present stream. It is false for an acknowledgement after the first.
func (l *listening) passes(method string) bool {
	if method != wire.Acknowledged {
		l.heard = true
		return true
	}
	first := !l.acknowledged
	l.acknowledged, l.open = true, true
	return first
}

// reopens reports whether the stream is opened again after this outcome: not if none was acknowledged yet, or if
// the endpoint refuses it.
func (l *listening) reopens(answer []byte, err error) bool {
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

// last returns the outcome for the client when no stream is opened again: the result of the last stream that
// had one.
func (l *listening) last(answer []byte, err error) ([]byte, error) {
	if l.result != nil && (err != nil || answer == nil) {
		return l.result, nil
	}
	return answer, err
}

// announceAgain sends a notification for everything that the client listens to, when a later stream is acknowledged:
// changes before that were not announced.
func (b *bridge) announceAgain(c *call, acknowledged json.RawMessage) {
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
