package proxy

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	parkedMax   = 1000             // calls that wait for an answer in another request
	parkedBytes = 256 << 20        // of all journals of such calls
	parkedFor   = 10 * time.Minute // how long each waits
	heldMax     = 64               // notifications kept while a call is parked
)

// A liveCall is a call for a stateless client that may need to ask it something. The
// question cannot travel inside the request, so the request ends with it
// (`input_required`) while the call waits here; the client's next request brings the
// answer and becomes the call's own (2026-07-28, multi round-trip requests).
type liveCall struct {
	p      *Proxy
	cancel context.CancelCauseFunc
	done   chan struct{}
	resp   *backends.Response // set before done closes
	err    error
	wake   chan struct{} // a question was asked

	mu        sync.Mutex
	out       outlet               // where frames go now; nil while parked
	held      [][]byte             // frames that came meanwhile
	questions map[string]*question // unanswered ones by key
	serial    int
	finished  bool // resp and err are set
	dropped   bool // nobody will take them
}

type question struct {
	method string
	params json.RawMessage
	answer chan json.RawMessage
}

// startLive runs call on its own goroutine with a context that outlives the request.
func (p *Proxy) startLive(ctx context.Context, x *exchange, call func(context.Context) (*backends.Response, error)) *liveCall {
	l := &liveCall{p: p, done: make(chan struct{}), wake: make(chan struct{}, 1), out: x.out, questions: map[string]*question{}}
	x.live, x.out = l, l
	if x.body != nil {
		x.body.kept = true
	}
	ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if !p.spawn(func() { l.run(ctx, call) }) {
		l.cancel(context.Canceled)
		l.run(ctx, call)
	}
	return l
}

func (l *liveCall) run(ctx context.Context, call func(context.Context) (*backends.Response, error)) {
	defer l.cancel(nil)
	resp, err := call(ctx)
	l.mu.Lock()
	l.resp, l.err, l.finished = resp, err, true
	dropped := l.dropped
	l.mu.Unlock()
	close(l.done)
	if dropped {
		release(resp)
	}
}

// drop gives the call up, with what it has returned or may still return.
func (l *liveCall) drop(cause error) {
	l.cancel(cause)
	l.mu.Lock()
	l.dropped = true
	finished := l.finished
	l.mu.Unlock()
	if finished {
		release(l.resp)
	}
}

// send passes a frame to the present request, or keeps it for the next one.
func (l *liveCall) send(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.send(frame)
	} else if len(l.held) < heldMax {
		l.held = append(l.held, frame)
	}
}

// ask puts a question to the client and waits for a later request to answer it.
func (l *liveCall) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	q := &question{method: method, params: params, answer: make(chan json.RawMessage, 1)}
	l.mu.Lock()
	l.serial++
	key := "q" + strconv.Itoa(l.serial)
	l.questions[key] = q
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	select {
	case a := <-q.answer:
		return a, nil
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.questions, key)
		l.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

// wait follows the call until it ends, asks, or the present request is given up.
func (l *liveCall) wait(ctx context.Context, x *exchange) (*backends.Response, error) {
	for {
		select {
		case <-l.done:
			return l.resp, l.err
		case <-l.wake:
			resp, err := l.park(x)
			if err != nil {
				l.drop(err)
			}
			if resp != nil || err != nil {
				return resp, err
			}
		case <-ctx.Done():
			l.drop(context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
	}
}

// park ends the present request with the open questions; nil when they are gone.
func (l *liveCall) park(x *exchange) (*backends.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.questions) == 0 {
		return nil, nil
	}
	state, err := x.p.parked.put(x, &parkedCall{live: l})
	if err != nil {
		return nil, err
	}
	l.out = nil
	requests := json.RawMessage("{}")
	for key, q := range l.questions {
		requests = wire.Set(requests, key, inputRequest(q.method, q.params))
	}
	return &backends.Response{Result: inputRequired(requests, state)}, nil
}

func inputRequest(method string, params json.RawMessage) json.RawMessage {
	return wire.Set(wire.Set(nil, "method", wire.Quote(method)), "params", orEmpty(params))
}

func orEmpty(params json.RawMessage) json.RawMessage {
	if len(params) == 0 || string(params) == "null" {
		return json.RawMessage("{}")
	}
	return params
}

// inputRequired is the result that asks a stateless client for more.
func inputRequired(requests json.RawMessage, state string) json.RawMessage {
	out := append([]byte(`{"resultType":"input_required","inputRequests":`), requests...)
	return append(append(append(out, `,"requestState":`...), wire.Quote(state)...), '}')
}

// follow makes x the call's own request, hands it the answers that x brings and waits
// for what comes of it.
func (l *liveCall) follow(ctx context.Context, x *exchange) (*backends.Response, error) {
	l.resume(x, wire.Get(x.params, "inputResponses"))
	return l.wait(ctx, x)
}

// resume hands over the answers. Questions that are still open are asked again.
func (l *liveCall) resume(x *exchange, answers json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = x.out
	for _, f := range l.held {
		x.out.send(f)
	}
	l.held = nil
	wire.Each(answers, func(key, value []byte) bool {
		if q := l.questions[string(key)]; q != nil {
			delete(l.questions, string(key))
			q.answer <- append(json.RawMessage(nil), value...)
		}
		return true
	})
	if len(l.questions) > 0 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}
