package proxy

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/auth"
	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
)

const (
	parkedMax   = 1000      // calls that wait for an answer in another request
	parkedBytes = 256 << 20 // of all bodies and questions of such calls

	parkedOfOne      = 250       // calls of one principal, where callers say who they are
	parkedBytesOfOne = 128 << 20 // and what they hold

	heldMax   = 64       // notifications kept while a call is parked
	heldBytes = 64 << 10 // and what they hold
)

// A liveCall is a call for a stateless client that may need to ask it something. The
// question cannot travel inside the request, so the request ends with it
// (`input_required`) while the call waits here; the client's next request brings the
// answer and becomes the call's own (2026-07-28, multi round-trip requests).
type liveCall struct {
	p      *Proxy
	cancel context.CancelCauseFunc
	body   *edge.Buffer // of the request that began it; nil on stdio
	size   int64        // of body
	done   chan struct{}
	resp   *backends.Response // set before done closes, like the next
	err    error
	lines  string        // the run that lines of the audit name
	wake   chan struct{} // a question was asked

	principal atomic.Pointer[auth.Principal] // who made the last request

	mu        sync.Mutex
	out       edge.FrameWriter // where frames go now; nil while parked
	held      [][]byte         // frames that came meanwhile
	heldBytes int
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
	l := p.newLive(ctx, x)
	l.start(ctx, x, call)
	return l
}

// newLive makes a live call of a request. Of a stateless client's the questions go through it.
func (p *Proxy) newLive(ctx context.Context, x *exchange) *liveCall {
	l := &liveCall{p: p, body: x.body, done: make(chan struct{}), wake: make(chan struct{}, 1), out: x.out, questions: map[string]*question{}, lines: x.audit.run}
	l.principal.Store(edge.PrincipalOf(ctx))
	if x.client.Modern() && x.client.CallsBack() {
		x.live = l
	}
	x.out = l
	if x.body != nil {
		x.body.Keep()
		l.size = x.body.Size()
	}
	return l
}

// start runs the call.
func (l *liveCall) start(ctx context.Context, x *exchange, call func(context.Context) (*backends.Response, error)) {
	ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if !l.p.spawn(func() { l.run(ctx, call) }) {
		l.cancel(context.Canceled)
		l.run(ctx, call)
	}
}

// run makes the call. The context lasts as long as the response: a large one is still
// read from the backend when call has returned.
func (l *liveCall) run(ctx context.Context, call func(context.Context) (*backends.Response, error)) {
	resp, err := call(ctx)
	if l.body != nil {
		l.body.Settle()
	}
	if resp == nil {
		l.cancel(nil)
	} else {
		resp.OnClose(func() { l.cancel(nil) })
	}
	l.mu.Lock()
	l.resp, l.err, l.finished = resp, err, true
	dropped := l.dropped
	l.mu.Unlock()
	close(l.done)
	if dropped && resp != nil {
		resp.Close()
	}
}

// drop gives the call up, with what it has returned or may still return.
func (l *liveCall) drop(cause error) {
	l.cancel(cause)
	l.mu.Lock()
	l.dropped = true
	finished := l.finished
	l.mu.Unlock()
	if finished && l.resp != nil {
		l.resp.Close()
	}
}

// Send passes a frame to the present request, or keeps it for the next one. It waits for
// a client that is slow, not for one that is away with a question.
func (l *liveCall) Send(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.Send(frame)
		return
	}
	l.hold(frame)
}

func (l *liveCall) Offer(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.Offer(frame)
		return
	}
	l.hold(frame)
}

// Request passes on a request to the client of a session. A stateless one is asked between requests.
func (l *liveCall) Request(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.Request(frame)
	}
}

// hold keeps a frame for the next request. mu is held.
func (l *liveCall) hold(frame []byte) {
	if len(l.held) >= heldMax || l.heldBytes+len(frame) > heldBytes {
		l.p.dropped.Add(1)
		return
	}
	l.held = append(l.held, frame)
	l.heldBytes += len(frame)
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
			l.belong(ctx)
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

// detach lets frames go elsewhere: nil keeps them for the next request.
func (l *liveCall) detach(to edge.FrameWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = to
}

// writes reports whether frames go to this writer now.
func (l *liveCall) writes(to edge.FrameWriter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out == to
}

// attach lets frames go to a request, if they go to none.
func (l *liveCall) attach(ctx context.Context, x *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil || l.out == (nobody{}) {
		l.principal.Store(edge.PrincipalOf(ctx))
		x.audit.run = l.lines
		l.takeOver(x)
	}
}

// belong ends the rest of a response that streams with the request that got it.
func (l *liveCall) belong(ctx context.Context) {
	if l.resp != nil {
		stop := context.AfterFunc(ctx, func() { l.cancel(context.Cause(ctx)) })
		l.resp.OnClose(func() { stop() })
	}
}

// park ends the present request with the open questions; nil when they are gone.
func (l *liveCall) park(x *exchange) (*backends.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.questions) == 0 {
		return nil, nil
	}
	state, err := x.p.parked.put(x, l, x.p.parkedFor())
	if err != nil {
		return nil, err
	}
	l.out, x.outcome = nil, outcome.Suspended
	var requests jsonscan.Object
	for key, q := range l.questions {
		requests.Raw(key, inputRequest(q.method, q.params))
	}
	return &backends.Response{Result: inputRequired(requests.JSON(), state)}, nil
}

// bytes is what the call holds while it waits. mu is held.
func (l *liveCall) bytes() int64 {
	n := heldBytes + l.size
	for _, q := range l.questions {
		n += int64(len(q.params))
	}
	return n
}

func inputRequest(method string, params json.RawMessage) json.RawMessage {
	return new(jsonscan.Object).Text("method", method).Raw("params", wire.OrEmpty(params)).JSON()
}

// inputRequired is the result that asks a stateless client for more.
func inputRequired(requests json.RawMessage, state string) json.RawMessage {
	return new(jsonscan.Object).Text("resultType", "input_required").Raw("inputRequests", requests).Text("requestState", state).JSON()
}

// follow makes x the call's own request, hands it the answers that x brings and waits
// for what comes of it.
func (l *liveCall) follow(ctx context.Context, x *exchange) (*backends.Response, error) {
	x.audit.run = l.lines
	l.principal.Store(edge.PrincipalOf(ctx))
	l.resume(x, x.get(memberResponses))
	return l.wait(ctx, x)
}

// takeOver lets frames go to a request, those first that were kept for it. mu is held.
func (l *liveCall) takeOver(x *exchange) {
	l.out = x.out
	for _, f := range l.held {
		x.out.Send(f)
	}
	l.held, l.heldBytes = nil, 0
}

// resume hands over the answers. Questions that are still open are asked again.
func (l *liveCall) resume(x *exchange, answers json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takeOver(x)
	jsonscan.Each(answers, func(key, value []byte) bool {
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
