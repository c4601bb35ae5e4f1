package parked

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
	"github.com/vmcp-dev/vmcp/proxy/edge/body"
)

const (
	maxCalls = 1000 // calls that wait for an answer in another request
	// MaxBytes is what all of them hold together.
	MaxBytes = 256 << 20 // of all bodies and questions of such calls

	maxOfOne      = 250       // calls of one principal, where callers say who they are
	maxBytesOfOne = 128 << 20 // and what they hold

	heldMax   = 64       // notifications kept while a call is parked
	heldBytes = 64 << 10 // and what they hold
)

// A Call is a call for a stateless client that may need to ask it something. The
// question cannot travel inside the request, so the request ends with it
// (`input_required`) while the call waits here; the client's next request brings the
// answer and becomes the call's own (2026-07-28, multi round-trip requests).
type Call struct {
	// Run is the run that lines of the audit name.
	Run string

	table  *Table
	cancel context.CancelCauseFunc
	body   *body.Buffer // of the request that began it; nil on stdio
	size   int64        // of body
	done   chan struct{}
	resp   *backends.Response // set before done closes, like the next
	err    error
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

// Call makes a call of a request of ctx: frames go to out, and body, if there is one, is kept. run is what lines of the
// audit name.
func (t *Table) Call(ctx context.Context, body *body.Buffer, out edge.FrameWriter, run string) *Call {
	l := &Call{Run: run, table: t, body: body, done: make(chan struct{}), wake: make(chan struct{}, 1), out: out, questions: map[string]*question{}}
	l.principal.Store(edge.PrincipalOf(ctx))
	if body != nil {
		body.Keep()
		l.size = body.Size()
	}
	return l
}

// Principal is who made the last request of the call; nil is anonymous.
func (l *Call) Principal() *auth.Principal { return l.principal.Load() }

// Start runs call on its own goroutine, with a context that outlives the request.
func (l *Call) Start(ctx context.Context, call func(context.Context) (*backends.Response, error)) {
	ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if !l.table.spawn(func() { l.run(ctx, call) }) {
		l.cancel(context.Canceled)
		l.run(ctx, call)
	}
}

// run makes the call. The context lasts as long as the response: a large one is still
// read from the backend when call has returned.
func (l *Call) run(ctx context.Context, call func(context.Context) (*backends.Response, error)) {
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
func (l *Call) drop(cause error) {
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
func (l *Call) Send(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.Send(frame)
		return
	}
	l.hold(frame)
}

// Offer is Send for what others would wait behind.
func (l *Call) Offer(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.Offer(frame)
		return
	}
	l.hold(frame)
}

// Request passes on a request to the client of a session. A stateless one is asked between requests.
func (l *Call) Request(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.Request(frame)
	}
}

// hold keeps a frame for the next request. mu is held.
func (l *Call) hold(frame []byte) {
	if len(l.held) >= heldMax || l.heldBytes+len(frame) > heldBytes {
		l.table.dropped.Add(1)
		return
	}
	l.held = append(l.held, frame)
	l.heldBytes += len(frame)
}

// Ask puts a question to the client and waits for a later request to answer it.
func (l *Call) Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
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

// Wait follows the call until it ends, asks, or the present request is given up. suspended: the response asks the client.
func (l *Call) Wait(ctx context.Context, p Parking) (resp *backends.Response, suspended bool, err error) {
	for {
		select {
		case <-l.done:
			l.belong(ctx)
			return l.resp, false, l.err
		case <-l.wake:
			resp, err := l.park(p)
			if err != nil {
				l.drop(err)
			}
			if resp != nil || err != nil {
				return resp, err == nil, err
			}
		case <-ctx.Done():
			l.drop(context.Cause(ctx))
			return nil, false, context.Cause(ctx)
		}
	}
}

// Detach lets frames go elsewhere: nil keeps them for the next request.
func (l *Call) Detach(to edge.FrameWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = to
}

// Writes reports whether frames go to this writer now.
func (l *Call) Writes(to edge.FrameWriter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out == to
}

// Attach lets frames go to a request of ctx, if they go to none.
func (l *Call) Attach(ctx context.Context, out edge.FrameWriter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil && l.out != (Nobody{}) {
		return false
	}
	l.principal.Store(edge.PrincipalOf(ctx))
	l.takeOver(out)
	return true
}

// belong ends the rest of a response that streams with the request that got it.
func (l *Call) belong(ctx context.Context) {
	if l.resp != nil {
		stop := context.AfterFunc(ctx, func() { l.cancel(context.Cause(ctx)) })
		l.resp.OnClose(func() { stop() })
	}
}

// park ends the present request with the open questions; nil when they are gone.
func (l *Call) park(p Parking) (*backends.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.questions) == 0 {
		return nil, nil
	}
	state, err := l.table.put(p, l)
	if err != nil {
		return nil, err
	}
	l.out = nil
	var requests jsonscan.Object
	for key, q := range l.questions {
		requests.Raw(key, InputRequest(q.method, q.params))
	}
	return &backends.Response{Result: InputRequired(requests.JSON(), state)}, nil
}

// bytes is what the call holds while it waits. mu is held.
func (l *Call) bytes() int64 {
	n := heldBytes + l.size
	for _, q := range l.questions {
		n += int64(len(q.params))
	}
	return n
}

// InputRequest is a question as a result brings it to a stateless client.
func InputRequest(method string, params json.RawMessage) json.RawMessage {
	return new(jsonscan.Object).Text("method", method).Raw("params", wire.OrEmpty(params)).JSON()
}

// InputRequired is the result that asks a stateless client for more.
func InputRequired(requests json.RawMessage, state string) json.RawMessage {
	return new(jsonscan.Object).Text("resultType", "input_required").Raw("inputRequests", requests).Text("requestState", state).JSON()
}

// takeOver lets frames go to a request, those first that were kept for it. mu is held.
func (l *Call) takeOver(out edge.FrameWriter) {
	l.out = out
	for _, f := range l.held {
		out.Send(f)
	}
	l.held, l.heldBytes = nil, 0
}

// Resume makes a request of ctx the call's own and hands over the answers that it brings. Questions that are still open
// are asked again.
func (l *Call) Resume(ctx context.Context, out edge.FrameWriter, answers json.RawMessage) {
	l.principal.Store(edge.PrincipalOf(ctx))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takeOver(out)
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

// Nobody is where frames go of a call without a client.
type Nobody struct{}

// Send drops a frame.
func (Nobody) Send([]byte) {}

// Offer drops a frame.
func (Nobody) Offer([]byte) {}

// Request drops a frame.
func (Nobody) Request([]byte) {}
