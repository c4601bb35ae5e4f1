package bridge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/vmcp-dev/vmcp/backends/internal/endpoint"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	// maxKept bounds the subscriptions that are restored in a new session.
	maxKept = 1_000
	// maxKeptBytes bounds the params of each, in bytes.
	maxKeptBytes = 4 << 10
)

// session is the client's session at the endpoint.
type session struct {
	at       *endpoint.Endpoint
	id       string
	revision string // negotiated
	params   json.RawMessage
	lists    json.RawMessage // the endpoint's capabilities
	ctx      context.Context // of its stream
	end      context.CancelFunc

	followed sync.Once // opens its stream once
}

// errGone is the error for a session that the endpoint has forgotten.
var errGone = errors.New("the endpoint has forgotten this session")

func isGone(err error) bool { return errors.Is(err, errGone) }

// endpoint returns the endpoint for requests without a session.
func (b *bridge) endpoint() *endpoint.Endpoint {
	return endpoint.New(b.o.URL, &b.headers, b.o.Transport.RoundTrip, func(resp *http.Response) { endpoint.Discard(resp.Body) })
}

// initialize opens the session of the client.
func (b *bridge) initialize(ctx context.Context, m *wire.Message, frame []byte) {
	if b.current() != nil {
		b.send(wire.Failure(m.ID, wire.Invalid("this connection is already initialized")))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	c := &call{ctx: ctx, id: m.ID, method: m.Method, params: m.Params, frame: frame}
	defer c.release()
	s, answer, err := b.open(ctx, c)
	switch {
	case err != nil:
		b.fail(m.ID, err)
		return
	case s != nil:
		b.mu.Lock()
		b.session = s
		b.mu.Unlock()
	}
	b.send(answer)
}

// open sends an initialize. s is nil when the response is an error.
func (b *bridge) open(ctx context.Context, c *call) (s *session, answer []byte, err error) {
	at := b.endpoint()
	resp, err := at.Post(ctx, c.method, c.frame, at.Header())
	if err != nil {
		return nil, nil, err
	}
	id := resp.Header.Get(wire.HeaderSession)
	if answer, err = b.answer(c, at, resp, nil); err != nil {
		return nil, nil, err
	}
	m, _ := wire.Skim(answer) // b.answer has checked it
	if m.Error != nil {
		return nil, answer, nil
	}
	s = &session{at: at, id: id, revision: jsonscan.GetString(m.Result, "protocolVersion"), params: c.params,
		lists: jsonscan.Get(m.Result, "capabilities")}
	s.ctx, s.end = context.WithCancel(b.ctx)
	if id != "" {
		at.Set(wire.HeaderSession, id)
	}
	if s.revision >= wire.Rev2506 {
		at.Set(wire.HeaderVersion, s.revision)
	}
	return s, answer, nil
}

// notify sends a notification or response.
func (s *session) notify(ctx context.Context, frame []byte) error {
	resp, err := s.at.Post(ctx, "", frame, s.at.Header())
	if err != nil {
		return err
	}
	endpoint.Discard(resp.Body)
	switch {
	case s.lost(resp):
		return errGone
	case resp.StatusCode > 299:
		return &endpoint.StatusError{Code: resp.StatusCode}
	}
	return nil
}

// lost reports whether a response means that there is no such session (2025-11-25,
// basic/transports, Session Management).
func (s *session) lost(resp *http.Response) bool {
	return resp.StatusCode == http.StatusNotFound && s.id != ""
}

func (s *session) delete(ctx context.Context) {
	if s.id == "" {
		return
	}
	if resp, err := s.at.Delete(ctx); err == nil {
		endpoint.Discard(resp.Body)
	}
}

// note records the log level and the subscriptions, for restore.
func (b *bridge) note(c *call) {
	key := c.method + " " + jsonscan.GetString(c.params, "uri")
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(c.params) > maxKeptBytes {
		return
	}
	switch c.method {
	case wire.SetLevel:
		b.kept[wire.SetLevel] = bytes.Clone(c.params)
	case wire.Subscribe:
		if len(b.kept) < maxKept {
			b.kept[key] = bytes.Clone(c.params)
		}
	case wire.Unsubscribe:
		delete(b.kept, wire.Subscribe+strings.TrimPrefix(key, wire.Unsubscribe))
	}
}

// renew opens a session in place of old, which the endpoint has forgotten, unless another goroutine
// has done so.
func (b *bridge) renew(ctx context.Context, old *session) error {
	b.renewing.Lock()
	defer b.renewing.Unlock()
	if b.current() != old {
		return nil
	}
	const id = `"vmcp-initialize"`
	c := &call{ctx: ctx, id: json.RawMessage(id), method: wire.Initialize, params: old.params, frame: wire.Request(json.RawMessage(id), wire.Initialize, old.params)}
	defer c.release()
	s, answer, err := b.open(ctx, c)
	if err != nil {
		return err
	}
	if s == nil {
		m, _ := wire.Skim(answer)
		return wire.ParseErrorObject(m.Error)
	}
	if s.revision != old.revision {
		s.end()
		s.delete(ctx)
		return fmt.Errorf("the endpoint now negotiates revision %s, and the client uses %s: restart the client's server", cmp.Or(s.revision, "no revision"), old.revision)
	}
	if err := s.notify(ctx, wire.Notification(wire.Initialized, nil)); err != nil {
		s.end()
		return err
	}
	b.restore(ctx, s)
	old.end()
	b.mu.Lock()
	b.session = s
	b.mu.Unlock()
	b.say("the endpoint has forgotten the session; a new one was opened")
	b.follow(s)
	b.announce(s)
	return nil
}

// restore sends the recorded log level and subscriptions to a new session.
func (b *bridge) restore(ctx context.Context, s *session) {
	b.mu.Lock()
	kept := maps.Clone(b.kept)
	b.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(kept)) {
		method, _, _ := strings.Cut(key, " ")
		resp, err := s.at.Post(ctx, method, wire.Request(json.RawMessage(`"vmcp-restore"`), method, kept[key]), s.at.Header())
		if err != nil {
			return // the next request finds out
		}
		endpoint.Discard(resp.Body)
	}
}

// announce sends list changed notifications for the lists for which the endpoint declares them.
func (b *bridge) announce(s *session) {
	for _, list := range wire.Lists {
		if string(jsonscan.GetPath(s.lists, list.Capability, "listChanged")) == "true" {
			b.send(wire.Notification(list.Changed, nil))
		}
	}
}

// follow opens the stream of a session, once.
func (b *bridge) follow(s *session) {
	s.followed.Do(func() { b.work.Go(func() { b.read(s) }) })
}

// read forwards the messages of the session's GET stream, which it reopens until the session ends.
// It returns when the endpoint has no such stream.
func (b *bridge) read(s *session) {
	at, wait := endpoint.Start, endpoint.Backoff{}
	for {
		resp, err := s.at.Get(s.ctx, at.Last)
		if err == nil {
			wait.Reset()
			_, err = b.events(s.ctx, resp, nil, &at)
		}
		var status *endpoint.StatusError
		if errors.As(err, &status) {
			switch {
			case status.Code == http.StatusNotFound && s.id != "":
				if b.renew(s.ctx, s) == nil {
					return
				}
			case status.Code == http.StatusBadRequest && at.Last != "":
				at.Last = "" // events after it were dropped
			case status.Code < 500 && status.Code != http.StatusTooManyRequests:
				return
			}
		}
		if endpoint.Sleep(s.ctx, max(wait.Next(), at.Retry)) != nil {
			return
		}
	}
}
