package script

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// This part of the package is the proxy's side of a worker process that computes runs: messages to and from their branches, and
// the end of the process.
//
// One goroutine reads what the worker sends, and passes it to the branch that it belongs to. A branch and the worker
// alternate: neither sends twice before the other has answered. The worker is not trusted: if it breaks the protocol,
// does not stop when asked to, or exits, its run ends with a *WorkerError. The meaning of the messages is not known
// here.

// Channel carries frames between a run and its worker.
type Channel interface {
	// Send writes one frame. It is safe for concurrent use.
	Send(parts ...[]byte) error
	// Receive returns the next frame, of at most most bytes, or the error after which there will be none. The frame
	// belongs to the caller.
	Receive(most int64) ([]byte, error)
	// Close ends the worker and waits until it has ended.
	Close()
}

// A WorkerError says that the worker process of an isolated run failed before the run ended.
type WorkerError struct{ Why string }

func (e *WorkerError) Error() string { return "the worker process of this run failed: " + e.Why }

// wrong returns the error for a message that breaks the protocol.
func wrong(format string, args ...any) error {
	return &WorkerError{Why: fmt.Sprintf("it sent an invalid message: "+format, args...)}
}

const (
	// stopWithin is how long a worker may continue when its run is to end.
	stopWithin = time.Second
	// lookAfter is how long a branch computes in the worker before its slot is offered to other runs.
	lookAfter = 50 * time.Millisecond
)

// sessionOptions say what a session works with.
type sessionOptions struct {
	Channel Channel
	// Encode encodes an error for the worker.
	Encode func(error) []byte
	// End ends the run.
	End context.CancelCauseFunc
	// Answers bounds an answer in bytes: the worker may pass parts of one to runs that it starts.
	Answers int64
}

// session is one worker with the runs that it computes: an isolated run, and the separate runs of its functions.
type session struct {
	o       sessionOptions
	granted atomic.Int64  // bytes of memory granted to all its runs
	done    chan struct{} // closed when the reader has ended
	dead    chan struct{} // closed when err is set

	mu       sync.Mutex
	last     int64                    // number of the newest branch
	branches map[int64]*sessionBranch // that have not ended
	err      error
}

// Open starts a session, which ends soon after ctx.
func Open(ctx context.Context, o sessionOptions) *session {
	s := &session{o: o, done: make(chan struct{}), dead: make(chan struct{}), branches: map[int64]*sessionBranch{}}
	go s.read()
	context.AfterFunc(ctx, s.stopLate)
	return s
}

// stopLate ends a worker that has not ended soon after its run was to.
func (s *session) stopLate() {
	select {
	case <-s.done:
	case <-time.After(stopWithin + stopWithin/2):
		s.fail(&WorkerError{Why: "it did not stop when its run ended"})
	}
}

// Close ends the worker and waits until the reader has ended.
func (s *session) Close() {
	s.o.Channel.Close()
	<-s.done
}

// Granted sets how many bytes of memory the runs may use; it also bounds what they may send in one frame.
func (s *session) Granted(bytes int64) { s.granted.Store(max(s.granted.Load(), bytes)) }

// Refuse ends the run with err, and returns err.
func (s *session) Refuse(err error) error {
	s.fail(err)
	return err
}

// fail ends the run with err and closes the channel, once.
func (s *session) fail(err error) {
	s.mu.Lock()
	first := s.err == nil
	if first {
		s.err = err
		close(s.dead)
	}
	s.mu.Unlock()
	if first {
		s.o.End(err)
		s.o.Channel.Close()
	}
}

// read passes messages to their branches.
func (s *session) read() {
	defer close(s.done)
	for {
		frame, err := s.o.Channel.Receive(max(s.granted.Load(), s.o.Answers) + 64<<10)
		if err != nil {
			s.fail(&WorkerError{Why: err.Error()})
			return
		}
		m, err := Decode(frame)
		if err != nil {
			s.fail(wrong("%v", err))
			return
		}
		if err := s.dispatch(m); err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *session) dispatch(m *Message) error {
	s.mu.Lock()
	b := s.branches[m.Branch]
	s.mu.Unlock()
	if b == nil {
		return wrong("no such branch")
	}
	select {
	case b.inbox <- m:
		return nil
	default:
		return wrong("sent before the last one was answered")
	}
}

// Send sends a message that belongs to no branch.
func (s *session) Send(m *Message) error {
	if err := s.o.Channel.Send(m.Encode()...); err == nil {
		return nil
	}
	select {
	case <-s.done: // the reader has set the error
	case <-time.After(stopWithin):
		s.fail(&WorkerError{Why: "it does not read its messages"})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// sessionBranch is a branch that is computed in the worker.
type sessionBranch struct {
	// ID is its number in messages.
	ID         int64
	session    *session
	inbox      chan *Message
	cancelSent bool // cancelWorker was called
}

// Join adds a branch, until Leave.
func (s *session) Join() *sessionBranch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	b := &sessionBranch{ID: s.last, session: s, inbox: make(chan *Message, 1)}
	s.branches[b.ID] = b
	return b
}

// Leave removes the branch.
func (s *session) Leave(b *sessionBranch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.branches, b.ID)
}

// Send sends m, after a Cancel message if ctx, that of the branch, has ended.
func (b *sessionBranch) Send(ctx context.Context, m *Message) error {
	m.Branch = b.ID
	if ctx.Err() != nil && !b.cancelSent {
		if err := b.cancelWorker(ctx); err != nil {
			return err
		}
	}
	return b.session.Send(m)
}

// cancelWorker sends the worker a Cancel message for the branch.
func (b *sessionBranch) cancelWorker(ctx context.Context) error {
	b.cancelSent = true
	return b.session.Send(&Message{Kind: cancel, Branch: b.ID, Parts: [][]byte{b.session.o.Encode(context.Cause(ctx))}})
}

// Receive waits for the next message of the worker. When ctx ends meanwhile, the worker is asked to stop, and is ended
// if it does not within stopWithin. pause, if not nil, is called every lookAfter.
func (b *sessionBranch) Receive(ctx context.Context, pause func()) (*Message, error) {
	var look, late <-chan time.Time
	if pause != nil {
		ticker := time.NewTicker(lookAfter)
		defer ticker.Stop()
		look = ticker.C
	}
	over := ctx.Done()
	for {
		if b.cancelSent && late == nil {
			over, late = nil, time.After(stopWithin)
		}
		select {
		case m := <-b.inbox:
			return m, nil
		case <-b.session.dead:
			return nil, b.session.err
		case <-over:
			if err := b.cancelWorker(ctx); err != nil {
				return nil, err
			}
		case <-late:
			return nil, b.session.Refuse(&WorkerError{Why: "it did not stop when its run ended"})
		case <-look:
			pause()
		}
	}
}
