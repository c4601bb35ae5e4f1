package runs

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/auth"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

const (
	maxCalls = 1000 // calls that wait for an answer in another request
	// SuspendedMaxBytes bounds the memory of all of them, in bytes.
	SuspendedMaxBytes = 256 << 20 // bodies and questions of such calls

	maxOfOne      = 250       // calls of one principal, with authentication
	maxBytesOfOne = 128 << 20 // and their memory

	keptFrames = 64       // notifications queued while a call is suspended
	keptBytes  = 64 << 10 // and their size
)

// A SuspendedCall is a call for a stateless client that may have to ask the client something. It cannot do so during the
// request, so the request ends with the question (input_required) while the call waits here; the client's next request
// has the answer and is attached to the call (2026-07-28, multi round-trip requests).
type SuspendedCall struct {
	// Run is the run that lines of the audit name.
	Run string

	table  *Table
	cancel context.CancelCauseFunc
	body   *edge.Buffer // of the first request; nil on stdio
	size   int64        // memory of body
	done   chan struct{}
	resp   *backends.Response // set before done is closed, like err
	err    error
	wake   chan struct{} // a question was asked

	principal atomic.Pointer[auth.Principal] // of the last request
	detached  atomic.Bool                    // out is nil; for Table.Len, which must not wait for mu

	mu        sync.Mutex
	out       edge.FrameWriter // destination of frames; nil while suspended
	kept      [][]byte         // frames queued meanwhile
	keptSize  int
	questions map[string]*question // unanswered ones by key
	serial    int
	finished  bool // resp and err are set
	dropped   bool // the response is not needed
}

type question struct {
	method string
	params json.RawMessage
	answer chan json.RawMessage
}

// Call makes a Call for a request of ctx: frames go to out, and body, if not nil, is retained. run is the run in audit
// events.
func (t *Table) Call(ctx context.Context, body *edge.Buffer, out edge.FrameWriter, run string) *SuspendedCall {
	l := &SuspendedCall{Run: run, table: t, body: body, done: make(chan struct{}), wake: make(chan struct{}, 1), out: out, questions: map[string]*question{}}
	l.principal.Store(edge.PrincipalOf(ctx))
	if body != nil {
		body.Retain()
		l.size = body.Size()
	}
	return l
}

// Principal is the principal of the last request; nil is anonymous.
func (l *SuspendedCall) Principal() *auth.Principal { return l.principal.Load() }

// Start runs call on a goroutine, with a context that outlives the request.
func (l *SuspendedCall) Start(ctx context.Context, call func(context.Context) (*backends.Response, error)) {
	ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if !l.table.spawn(func() { l.run(ctx, call) }) {
		l.cancel(context.Canceled)
		l.run(ctx, call)
	}
}

// run makes the call. The context ends with the response: a large one is still read from the backend when call has
// returned.
func (l *SuspendedCall) run(ctx context.Context, call func(context.Context) (*backends.Response, error)) {
	resp, err := call(ctx)
	if l.body != nil {
		l.body.Unreserve()
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

// drop cancels the call, and closes the response that it has returned or still returns.
func (l *SuspendedCall) drop(cause error) {
	l.cancel(cause)
	l.mu.Lock()
	l.dropped = true
	finished := l.finished
	l.mu.Unlock()
	if finished && l.resp != nil {
		l.resp.Close()
	}
}

// Send passes a frame to the attached request, or queues it for the next one. It blocks for a slow client, but not
// while the call is suspended.
func (l *SuspendedCall) Send(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.Send(frame)
		return
	}
	l.queue(frame)
}

// Offer is Send without blocking.
func (l *SuspendedCall) Offer(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.Offer(frame)
		return
	}
	l.queue(frame)
}

// Request passes on a request to a client with a session. A stateless client is asked by input_required.
func (l *SuspendedCall) Request(ctx context.Context, frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.Request(ctx, frame)
	}
}

// queue queues a frame for the next request, within bounds. mu is held.
func (l *SuspendedCall) queue(frame []byte) {
	if len(l.kept) >= keptFrames || l.keptSize+len(frame) > keptBytes {
		l.table.dropped.Add(1)
		return
	}
	l.kept = append(l.kept, frame)
	l.keptSize += len(frame)
}

// Ask asks the client, and waits for a later request with the answer.
func (l *SuspendedCall) Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
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

// Wait waits until the call ends or asks, or the attached request is cancelled. suspended: the response is
// input_required.
func (l *SuspendedCall) Wait(ctx context.Context, p Terms) (resp *backends.Response, suspended bool, err error) {
	for {
		select {
		case <-l.done:
			l.belong(ctx)
			return l.resp, false, l.err
		case <-l.wake:
			resp, err := l.suspend(p)
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

// Detach redirects frames; nil queues them for the next request.
func (l *SuspendedCall) Detach(to edge.FrameWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setOut(to)
}

// setOut sets the destination of frames. mu is held.
func (l *SuspendedCall) setOut(to edge.FrameWriter) {
	l.out = to
	l.detached.Store(to == nil)
}

// Writes reports whether frames go to this writer now.
func (l *SuspendedCall) Writes(to edge.FrameWriter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out == to
}

// Attach attaches a request of ctx, unless another one is attached.
func (l *SuspendedCall) Attach(ctx context.Context, out edge.FrameWriter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil && l.out != (Nobody{}) {
		return false
	}
	l.principal.Store(edge.PrincipalOf(ctx))
	l.takeOver(out)
	return true
}

// belong cancels a streamed response when the request that got it ends.
func (l *SuspendedCall) belong(ctx context.Context) {
	if l.resp != nil {
		stop := context.AfterFunc(ctx, func() { l.cancel(context.Cause(ctx)) })
		l.resp.OnClose(func() { stop() })
	}
}

// suspend suspends the call, and returns the response for the attached request; nil if no question is open any more.
func (l *SuspendedCall) suspend(p Terms) (*backends.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.questions) == 0 {
		return nil, nil
	}
	state, err := l.table.put(p, l)
	if err != nil {
		return nil, err
	}
	l.setOut(nil)
	var requests jsonscan.Object
	for key, q := range l.questions {
		requests.Raw(key, InputRequest(q.method, q.params))
	}
	return &backends.Response{Result: InputRequired(requests.JSON(), state)}, nil
}

// bytes is the memory of a suspended call. mu is held.
func (l *SuspendedCall) bytes() int64 {
	n := keptBytes + l.size
	for _, q := range l.questions {
		n += int64(len(q.params))
	}
	return n
}

// InputRequest is a question in the form for inputRequests.
func InputRequest(method string, params json.RawMessage) json.RawMessage {
	return new(jsonscan.Object).Text("method", method).Raw("params", wire.OrEmpty(params)).JSON()
}

// InputRequired is an input_required result.
func InputRequired(requests json.RawMessage, state string) json.RawMessage {
	return new(jsonscan.Object).Text("resultType", "input_required").Raw("inputRequests", requests).Text("requestState", state).JSON()
}

// takeOver redirects frames to a request, the queued ones first. mu is held.
func (l *SuspendedCall) takeOver(out edge.FrameWriter) {
	l.setOut(out)
	for _, f := range l.kept {
		out.Send(f)
	}
	l.kept, l.keptSize = nil, 0
}

// Resume attaches a request of ctx and delivers its answers. Questions that are still open are asked again.
func (l *SuspendedCall) Resume(ctx context.Context, out edge.FrameWriter, answers json.RawMessage) {
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

// Nobody is a FrameWriter for a call without a client.
type Nobody struct{}

// Send drops a frame.
func (Nobody) Send([]byte) {}

// Offer drops a frame.
func (Nobody) Offer([]byte) {}

// Request drops a frame.
func (Nobody) Request(context.Context, []byte) {}
