// Package session is a worker process as the runs see it that it computes: messages to and from each branch of
// theirs, and its end.
//
// One goroutine reads what the worker sends, and hands it to the branch that it is about. A branch and the worker
// take turns: neither sends twice before the other has answered. The worker is not trusted: one that says what it
// may not, does not stop when it is to, or ends, ends its run with a *WorkerError. What the messages mean is not
// known here.
package session

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/script/internal/message"
)

// Channel carries frames between a run and its worker.
type Channel interface {
	// Send writes one frame. It may be called by several goroutines.
	Send(parts ...[]byte) error
	// Receive returns the next frame, of at most so many bytes, or says why there will be
	// none. The frame belongs to the caller.
	Receive(most int64) ([]byte, error)
	// Close ends the worker and waits until it has ended.
	Close()
}

// A WorkerError says that the process that computed an isolated run did not bring it to its
// end.
type WorkerError struct{ Why string }

func (e *WorkerError) Error() string { return "the worker process of this run failed: " + e.Why }

// Wrong is the error of a worker that says what it may not.
func Wrong(format string, args ...any) error {
	return &WorkerError{Why: fmt.Sprintf("it sent what does not belong here: "+format, args...)}
}

const (
	// StopWithin is how long a worker may go on when its run is to end.
	StopWithin = time.Second
	// lookAfter is how long a branch computes without a sign before others get its slot.
	lookAfter = 50 * time.Millisecond
)

// Options say what a session works with.
type Options struct {
	Channel Channel
	// Encode makes the form of an error that crosses.
	Encode func(error) []byte
	// End ends the run.
	End context.CancelCauseFunc
	// Answers is what an answer may have, in bytes: the worker hands parts of it to runs apart.
	Answers int64
}

// Session is one worker and the runs that it computes: an isolated run, and those of its
// functions that run apart.
type Session struct {
	o       Options
	granted atomic.Int64  // bytes of memory, to all its runs
	done    chan struct{} // the reader has ended
	dead    chan struct{} // closed when err is set

	mu       sync.Mutex
	last     int64             // number of a branch
	branches map[int64]*Branch // that have not ended
	err      error
}

// Open begins a session, which ends soon after ctx.
func Open(ctx context.Context, o Options) *Session {
	s := &Session{o: o, done: make(chan struct{}), dead: make(chan struct{}), branches: map[int64]*Branch{}}
	go s.read()
	context.AfterFunc(ctx, s.stopLate)
	return s
}

// stopLate ends a worker that has not ended soon after its run was to.
func (s *Session) stopLate() {
	select {
	case <-s.done:
	case <-time.After(StopWithin + StopWithin/2):
		s.fail(&WorkerError{Why: "it did not stop when its run was over"})
	}
}

// Close ends the worker and waits until nothing is left of it.
func (s *Session) Close() {
	s.o.Channel.Close()
	<-s.done
}

// Granted says that the runs may use so many bytes of memory, and send no more at once.
func (s *Session) Granted(bytes int64) { s.granted.Store(max(s.granted.Load(), bytes)) }

// Refuse ends the run, and returns why.
func (s *Session) Refuse(err error) error {
	s.fail(err)
	return err
}

// fail ends the run: the worker is not what it should be.
func (s *Session) fail(err error) {
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

// read passes messages on to the branches that they are about.
func (s *Session) read() {
	defer close(s.done)
	for {
		frame, err := s.o.Channel.Receive(max(s.granted.Load(), s.o.Answers) + 64<<10)
		if err != nil {
			s.fail(&WorkerError{Why: err.Error()})
			return
		}
		m, err := message.Decode(frame)
		if err != nil {
			s.fail(Wrong("%v", err))
			return
		}
		if err := s.dispatch(m); err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *Session) dispatch(m *message.Message) error {
	s.mu.Lock()
	b := s.branches[m.Branch]
	s.mu.Unlock()
	if b == nil {
		return Wrong("a message about a branch that there is not")
	}
	select {
	case b.inbox <- m:
		return nil
	default:
		return Wrong("a message before the last one was answered")
	}
}

// Send sends what is about no branch.
func (s *Session) Send(m *message.Message) error {
	if err := s.o.Channel.Send(m.Encode()...); err == nil {
		return nil
	}
	select {
	case <-s.done: // the reader has found out why
	case <-time.After(StopWithin):
		s.fail(&WorkerError{Why: "it does not read what it is sent"})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Branch is one that computes in the worker.
type Branch struct {
	// ID is its number in messages.
	ID      int64
	session *Session
	inbox   chan *message.Message
	told    bool // that its context has ended
}

// Join makes a branch that computes in the worker, until Leave.
func (s *Session) Join() *Branch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	b := &Branch{ID: s.last, session: s, inbox: make(chan *message.Message, 1)}
	s.branches[b.ID] = b
	return b
}

// Leave ends what Join began.
func (s *Session) Leave(b *Branch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.branches, b.ID)
}

// Send sends m, behind the news that ctx, that of the branch, has ended if it has.
func (b *Branch) Send(ctx context.Context, m *message.Message) error {
	m.Branch = b.ID
	if ctx.Err() != nil && !b.told {
		if err := b.tell(ctx); err != nil {
			return err
		}
	}
	return b.session.Send(m)
}

// tell tells the worker that the context of the branch has ended.
func (b *Branch) tell(ctx context.Context) error {
	b.told = true
	return b.session.Send(&message.Message{Kind: message.Cancel, Branch: b.ID, Parts: [][]byte{b.session.o.Encode(context.Cause(ctx))}})
}

// Receive waits for the next message of the worker. When ctx ends meanwhile, the
// worker is told; one that does not go on then is ended. Every now and then pause is called, if it is not nil.
func (b *Branch) Receive(ctx context.Context, pause func()) (*message.Message, error) {
	var look, late <-chan time.Time
	if pause != nil {
		ticker := time.NewTicker(lookAfter)
		defer ticker.Stop()
		look = ticker.C
	}
	over := ctx.Done()
	for {
		if b.told && late == nil {
			over, late = nil, time.After(StopWithin)
		}
		select {
		case m := <-b.inbox:
			return m, nil
		case <-b.session.dead:
			return nil, b.session.err
		case <-over:
			if err := b.tell(ctx); err != nil {
				return nil, err
			}
		case <-late:
			return nil, b.session.Refuse(&WorkerError{Why: "it did not stop when its run was over"})
		case <-look:
			pause()
		}
	}
}
