package script

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
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
	stopWithin = 5 * time.Second
	// lookAfter is how long a branch computes in the worker before its slot is offered to other runs.
	lookAfter = 2 * turnTime
)

// sessionOptions say what a session works with.
type sessionOptions struct {
	// Open waits until there may be one more worker, starts it, and calls ready with it. seat, if not nil, is that of the
	// run that has the turn, without its slot; Open returns with the slot.
	Open func(ctx context.Context, seat *Seat, ready func(Channel) error) error
	// Closed is called after a worker has ended.
	Closed func()
	// Encode encodes an error for the worker.
	Encode func(error) []byte
	// End ends the run.
	End context.CancelCauseFunc
	// Answers bounds an answer in bytes: the worker may pass parts of one to runs that it starts.
	Answers int64
}

// session is the worker of some runs: an isolated run, and the separate runs of its functions.
//
// It has a worker from the first message to a branch on. While the worker has nothing to compute it can be ended
// (GiveBack), for the sake of other runs. With the next message there is another one, which is first told what the others
// were told (records): the same program, with the same answers to the same effects, is then at the same points. What
// it asks of ledger and log on the way was charged before, so it is granted anything; the counts are those of the next
// message that passes the turn. Where the worker was in the middle of computing, it gets the same grants again.
type session struct {
	o         sessionOptions
	granted   atomic.Int64  // bytes of memory granted to all its runs
	idle      atomic.Int64  // since when the worker has nothing to compute, in nanoseconds; 0: it computes, or there is none
	workers   atomic.Int64  // opened so far
	dead      chan struct{} // closed when err is set
	over      chan struct{} // closed by Close
	attaching chan struct{} // a token of the branch that opens a worker
	readers   sync.WaitGroup

	mu       sync.Mutex
	channel  Channel                  // of the worker; nil: there is none. Guarded by mu, as all below
	last     int64                    // number of the newest branch
	branches map[int64]*sessionBranch // that have not ended
	records  []*record
	owed     int // messages that the worker has not answered
	err      error
}

// record is a message that a further worker is told.
type record struct {
	m      *Message // nil: it is not needed any more
	root   int64    // of the branch
	sent   time.Time
	answer Kind       // of the worker's next message; 0 for none, or while it is open
	hash   uint64     // of the effect that the worker asked for, if it did
	open   bool       // the worker computes, or waits for the answer to a charge
	paid   []*Message // while it is open: the answers to charges since
}

var recordSeed = maphash.MakeSeed()

// hashOf identifies the effect that a message asks for; 0 for other messages.
func hashOf(m *Message) uint64 {
	if m.Kind != Do {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(recordSeed)
	for _, part := range m.Parts {
		_, _ = h.Write(part)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// Open starts a session, which ends soon after ctx. program is the first message to each worker.
func Open(ctx context.Context, o sessionOptions, program *Message) *session {
	s := &session{
		o: o, dead: make(chan struct{}), over: make(chan struct{}), attaching: make(chan struct{}, 1),
		branches: map[int64]*sessionBranch{}, records: []*record{{m: program}},
	}
	context.AfterFunc(ctx, s.stopLate)
	return s
}

// stopLate ends a worker that has not ended soon after its run was to.
func (s *session) stopLate() {
	select {
	case <-s.over:
	case <-time.After(stopWithin + stopWithin/2):
		s.fail(&WorkerError{Why: "it did not stop when its run ended"})
	}
}

// Close ends the worker and waits until its reader has ended.
func (s *session) Close() {
	close(s.over)
	s.end(s.take(false))
	s.readers.Wait()
}

// GiveBack ends the worker, unless it computes.
func (s *session) GiveBack() { s.end(s.take(true)) }

// take removes the worker from the session, and returns its channel; nil when there is none, or with idle when it
// computes.
func (s *session) take(idle bool) Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	if idle && s.owed > 0 {
		return nil
	}
	c := s.channel
	s.channel = nil
	s.idle.Store(0)
	return c
}

// end ends a worker that was taken.
func (s *session) end(c Channel) {
	if c != nil {
		c.Close()
		s.o.Closed()
	}
}

// Idle returns for how long the worker has had nothing to compute.
func (s *session) Idle() time.Duration {
	since := s.idle.Load()
	if since == 0 {
		return 0
	}
	return time.Since(time.Unix(0, since))
}

// Away reports whether the session has no worker.
func (s *session) Away() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.channel == nil
}

// Attach makes sure that there is a worker. seat is as for sessionOptions.Open.
func (s *session) Attach(ctx context.Context, seat *Seat) error {
	if !s.Away() {
		return nil
	}
	select {
	case s.attaching <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.attaching }()
	select {
	case <-s.dead:
		return s.err
	default:
	}
	if !s.Away() {
		return nil
	}
	err := s.o.Open(ctx, seat, func(c Channel) error {
		stop := context.AfterFunc(ctx, c.Close)
		defer stop()
		return s.replay(c)
	})
	switch bad, ok := err.(*WorkerError); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case ok:
		return s.Refuse(bad)
	}
	return err
}

// replay tells a new worker what the others were told, and makes it that of the session.
func (s *session) replay(c Channel) error {
	for i := 0; ; i++ {
		s.mu.Lock()
		if i == len(s.records) {
			s.channel = c
			s.workers.Add(1)
			s.idle.Store(time.Now().UnixNano())
			s.readers.Go(func() { s.read(c) })
			s.mu.Unlock()
			return nil
		}
		r := *s.records[i]
		s.mu.Unlock()
		if r.m == nil {
			continue
		}
		if err := s.repeat(c, r); err != nil {
			return err
		}
	}
}

// repeat sends one message again and waits for its answer.
func (s *session) repeat(c Channel, r record) error {
	m := r.m
	if m.Kind == messagePerform {
		m = m.late(time.Since(r.sent))
	}
	for {
		if err := c.Send(m.Encode()...); err != nil {
			return &WorkerError{Why: err.Error()}
		}
		if r.answer == 0 && !r.open {
			return nil
		}
		said, err := receive(c, s.most())
		switch {
		case err != nil:
			return err
		case said.Branch != r.m.Branch:
			return wrong("no such branch")
		case r.open && said.Kind.charges() && len(r.paid) == 0:
			return nil // this one is still to be answered
		case r.open && said.Kind.charges():
			m, r.paid = r.paid[0], r.paid[1:]
		case said.Kind.charges():
			m = said.permit()
		case said.Kind != r.answer, hashOf(said) != r.hash:
			return &WorkerError{Why: "it did something else than the worker before it"}
		default:
			return nil
		}
	}
}

// Granted sets how many bytes of memory the runs may use; it also bounds what they may send in one frame.
func (s *session) Granted(bytes int64) { s.granted.Store(max(s.granted.Load(), bytes)) }

// most bounds a frame of the worker, in bytes. There is room for an error with its backtrace.
func (s *session) most() int64 { return max(s.granted.Load(), s.o.Answers) + 1<<20 }

// Refuse ends the run with err, and returns err.
func (s *session) Refuse(err error) error {
	s.fail(err)
	return err
}

// fail ends the run with err and its worker, once.
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
		s.end(s.take(false))
	}
}

// read passes messages of a worker to their branches.
func (s *session) read(c Channel) {
	for {
		m, err := receive(c, s.most())
		if err == nil {
			err = s.dispatch(m)
		}
		if err != nil {
			s.mu.Lock()
			taken := s.channel != c
			s.mu.Unlock()
			if !taken {
				s.fail(err)
			}
			return
		}
	}
}

// receive returns the next message. The error is a *WorkerError.
func receive(c Channel, most int64) (*Message, error) {
	frame, err := c.Receive(most)
	if err != nil {
		return nil, &WorkerError{Why: err.Error()}
	}
	m, err := Decode(frame)
	if err != nil {
		return nil, wrong("%v", err)
	}
	return m, nil
}

func (s *session) dispatch(m *Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.branches[m.Branch]
	switch {
	case b == nil:
		return wrong("no such branch")
	case !b.owed:
		return wrong("sent before the last one was answered")
	}
	b.owed, b.asked = false, m.Kind
	if b.told != nil && !m.Kind.charges() {
		b.told.answer, b.told.hash, b.told.open, b.told.paid = m.Kind, hashOf(m), false, nil
		b.told = nil
	}
	if s.owed--; s.owed == 0 {
		s.idle.Store(time.Now().UnixNano())
	}
	b.inbox <- m // has room: the branch has received the last one
	return nil
}

// write sends a message to the worker.
func (s *session) write(c Channel, m *Message) error {
	if err := c.Send(m.Encode()...); err == nil {
		return nil
	}
	select {
	case <-s.dead: // the reader has set the error
	case <-time.After(stopWithin):
		s.fail(&WorkerError{Why: "it does not read its messages"})
	}
	return s.err
}

// sessionBranch is a branch that is computed in the worker.
type sessionBranch struct {
	// ID is its number in messages.
	ID         int64
	root       int64 // the first branch of its run
	session    *session
	inbox      chan *Message
	cancelSent bool // cancelWorker was called

	// The mutex of the session guards these.
	owed   bool      // the worker has not answered the last message
	asked  Kind      // of the worker's last message
	told   *record   // the last message, while its answer is not known
	effect []*record // messages of the effect that it performs
}

// Join adds a branch, until Leave. root is the ID of the first branch of its run; 0: it is that.
func (s *session) Join(root int64) *sessionBranch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	b := &sessionBranch{ID: s.last, root: cmp.Or(root, s.last), session: s, inbox: make(chan *Message, 1)}
	s.branches[b.ID] = b
	return b
}

// Leave removes the branch. With the first of a run that another one has called, all that the run was told is forgotten: its caller
// has the result.
func (s *session) Leave(b *sessionBranch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.branches, b.ID)
	if b.owed {
		s.owed--
	}
	for _, r := range s.records {
		if b.ID == b.root && r.root == b.root {
			r.m = nil
		}
	}
}

// Send sends m, after a Cancel message if ctx, that of the branch, has ended. If there is no worker, it waits for one until
// ctx ends.
func (b *sessionBranch) Send(ctx context.Context, m *Message) error {
	m.Branch = b.ID
	if ctx.Err() != nil && !b.cancelSent {
		if err := b.cancelWorker(ctx); err != nil {
			return err
		}
	}
	s := b.session
	for {
		if err := s.Attach(ctx, nil); err != nil {
			return err
		}
		s.mu.Lock()
		c := s.channel
		if c == nil { // it was given back meanwhile, or has failed
			s.mu.Unlock()
			continue
		}
		b.note(m)
		b.owed = true
		s.owed++
		s.idle.Store(0)
		s.mu.Unlock()
		return s.write(c, m)
	}
}

// note records what a further worker has to be told. mu is held.
//
// An effect that has ended is told as if it were in the journal: its result alone.
func (b *sessionBranch) note(m *Message) {
	s := b.session
	if b.asked.charges() {
		b.told.paid = append(b.told.paid, m)
		return
	}
	r := &record{m: m, root: b.root, sent: time.Now(), open: true}
	switch {
	case m.Kind == messagePerform, m.Kind == reply && len(b.effect) > 0:
		b.effect = append(b.effect, r)
	case m.Kind == Done:
		for _, old := range b.effect {
			old.m = nil
		}
		b.effect = nil
		if m.again != nil {
			r.m = m.again
			r.m.Branch = b.ID
		}
	}
	if len(s.records) == cap(s.records) {
		s.records = slices.DeleteFunc(s.records, func(r *record) bool { return r.m == nil })
	}
	s.records = append(s.records, r)
	b.told = r
}

// cancelWorker tells the worker, if there is one, that the context of the branch has ended.
func (b *sessionBranch) cancelWorker(ctx context.Context) error {
	b.cancelSent = true
	m := &Message{Kind: cancel, Branch: b.ID, Parts: [][]byte{b.session.o.Encode(context.Cause(ctx))}}
	s := b.session
	s.mu.Lock()
	c := s.channel
	s.records = append(s.records, &record{m: m, root: b.root})
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	return s.write(c, m)
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
