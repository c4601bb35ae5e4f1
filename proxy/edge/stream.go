package edge

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Streams of events, and what they hold.
//
// A stream is one sequence of events for one client: the answer to a POST that became an
// event stream, or the stream of a session's own for what belongs to no request. An event
// is one piece, or many where it carries a large result. Handlers of requests write
// pieces, the connection's pump takes them.
//
// Between the two stands a window. A writer that belongs to a request waits when
// streamBytes are there that nobody has taken, and through it the backend waits; so a slow
// reader loses nothing. It waits as long as a connection reads (which the deadline of the
// connection bounds, see conn.go) and slowReader while none does. Then the stream breaks:
// its request is cancelled, what it held is let go, and an error stands in the place of
// the result. A client never sees a result with something missing before it.
//
// Writers that belong to no request, whom others wait for, use offer: it never waits, and
// drops the oldest notifications over the window. It never drops a request.
//
// Pieces that were taken are kept where the client can resume, for as long as the budgets
// of the session and of the process allow (see replays): all of the event that is under
// way, and streamBytes of those before it. Who resumes behind what is gone gets the error.
//
// Lock order: session.mu, replays.mu, stream.mu; none is held while another is waited for.

const (
	keepAlive = 20 * time.Second // between comments on a silent stream
	// streamBytes is how much a stream holds that nobody has taken, and how much of what
	// was taken whole.
	streamBytes = 1 << 20
	// tightBytes is the same while all streams together hold streamsTotal.
	tightBytes = 64 << 10
	// takeBytes is about how much a connection takes at a time.
	takeBytes = 64 << 10
)

// Why a stream takes nothing more.
var (
	errStreamOver = errors.New("the stream has ended")
	errUnread     = wire.Errorf(wire.InternalError, "the answer was given up: it was not read for %v", slowReader)
	errNotKept    = wire.Errorf(wire.InternalError, "the connection was lost, and what it did not deliver of this answer is not kept any more; call again")
)

// piece is an event, or a part of one.
type piece struct {
	data       []byte
	seq        int  // of the event
	start, end bool // of the event
	request    bool // the client has to get it
}

// stream holds the pieces of a sequence of events.
type stream struct {
	id        string // "" when it cannot be resumed
	resumable bool
	budget    *budget
	request   json.RawMessage // the id of the request that it answers; nil of a session's own
	cancel    func()          // of that request

	mu     sync.Mutex
	pieces []piece // guarded by mu, like all below
	base   int     // the number of pieces[0] in the stream
	at     int     // the number of the first piece that the reader has not taken
	next   int     // the seq of the next event
	unread int     // bytes from at on
	size   int     // bytes of all pieces

	open     bool          // the last event is under way: nothing else is let in
	partial  bool          // what was put last is no event's end
	mid      bool          // what the reader took last is no event's end
	takenAt  time.Time     // when it took it
	timer    *time.Timer   // ends the keeping of an ended stream
	closed   bool          // no more pieces will come
	broken   bool          // closed before its result
	readers  int           // counts attachments: a new one takes over from the old
	attached bool          // the newest of them still reads
	away     time.Time     // since when nobody reads
	retry    time.Duration // how long a client that is sent away should wait
	wake     chan struct{} // cap 1: something for the reader
	room     chan struct{} // closed when the reader has taken something; nil while nobody waits
}

func newStream(id string, b *budget) *stream {
	return &stream{id: id, resumable: id != "", budget: b, wake: make(chan struct{}, 1), away: time.Now()}
}

// send appends an event and waits until there is room for it.
func (s *stream) send(ctx context.Context, frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.await(ctx, len(frame))
	if s.open {
		err = errStreamOver // it waited until the result began
	}
	if err == nil {
		s.put(piece{data: frame, start: true, end: true})
	}
	return err
}

// offer appends an event without waiting. When too much is there that nobody took, the
// oldest notifications are dropped.
func (s *stream) offer(frame []byte, request bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.put(piece{data: frame, start: true, end: true, request: request})
	s.dropOldest()
}

// dropOldest keeps a stream that is not waited for within its window. mu is held.
func (s *stream) dropOldest() {
	limit, first := s.window(), s.at-s.base
	if s.unread <= limit {
		return
	}
	kept := s.pieces[:first]
	for i, p := range s.pieces[first:] {
		newest := first+i == len(s.pieces)-1
		if s.unread > limit && !p.request && !newest {
			s.unread -= len(p.data)
			s.forgetBytes(len(p.data))
			s.budget.dropped()
			continue
		}
		kept = append(kept, p)
	}
	clear(s.pieces[len(kept):])
	s.pieces = kept
}

// beginResult begins the last event, which comes in pieces.
func (s *stream) beginResult() {
	s.mu.Lock()
	s.open = true
	s.mu.Unlock()
}

// sendPart appends a part of the last event and waits until there is room for it.
func (s *stream) sendPart(ctx context.Context, p piece) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.await(ctx, len(p.data))
	if err == nil {
		s.put(p)
	}
	return err
}

// fail ends the last event, of which parts may have been sent, with an error in its
// place. A reader that has parts of it already is cut off.
func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for n := len(s.pieces); s.partial && s.base+n > s.at && s.pieces[n-1].seq == s.next; n = len(s.pieces) {
		s.unread -= len(s.pieces[n-1].data)
		s.forgetBytes(len(s.pieces[n-1].data))
		s.pieces = s.pieces[:n-1]
	}
	if s.mid {
		s.breakOff(err)
		return
	}
	s.put(piece{data: wire.Failure(s.request, err), start: true, end: true})
}

// put appends a piece. mu is held.
func (s *stream) put(p piece) {
	p.seq = s.next
	if s.partial = !p.end; p.end {
		s.next++
	}
	s.pieces = append(s.pieces, p)
	s.unread += len(p.data)
	s.size += len(p.data)
	s.budget.add(len(p.data))
	s.signal()
}

// forgetBytes takes what is no longer held off the budget. mu is held.
func (s *stream) forgetBytes(n int) {
	s.size -= n
	s.budget.add(-n)
}

// window is how much may be there that nobody took.
func (s *stream) window() int {
	if s.budget.tight() {
		return tightBytes
	}
	return streamBytes
}

// await waits until n more bytes fit. mu is held, and let go meanwhile.
func (s *stream) await(ctx context.Context, n int) error {
	for {
		switch {
		case s.closed:
			return errStreamOver
		case s.unread == 0 || s.unread+n <= s.window():
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !s.attached && time.Since(s.away) >= slowReader:
			s.breakOff(errUnread)
			return errUnread
		}
		s.waitForRoom(ctx)
	}
}

// waitForRoom waits until something has changed. mu is held, and let go meanwhile.
func (s *stream) waitForRoom(ctx context.Context) {
	if s.room == nil {
		s.room = make(chan struct{})
	}
	room, limit := s.room, time.Until(s.away.Add(slowReader))
	if s.attached {
		limit = slowReader // the connection has a deadline of its own
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-room:
	case <-t.C:
	case <-ctx.Done():
	}
}

// breakOff ends the stream without its result. mu is held.
func (s *stream) breakOff(err error) {
	mid := s.mid
	s.closed, s.broken = true, true
	s.letGo()
	if s.budget != nil {
		s.budget.all.broken.Add(1)
	}
	if s.request != nil && s.resumable {
		s.put(piece{data: wire.Failure(s.request, err), start: true, end: true})
	}
	if mid {
		s.readers++ // who has a part of an event cannot go on
		s.attached, s.away = false, time.Now()
	}
	s.notifyAll()
	if s.cancel != nil {
		s.cancel()
	}
}

// letGo forgets everything that the stream holds. mu is held.
func (s *stream) letGo() {
	s.base += len(s.pieces)
	s.at = s.base
	s.forgetBytes(s.size)
	s.pieces, s.unread = nil, 0
}

// close ends the stream after the pieces that are in it.
func (s *stream) close() {
	s.mu.Lock()
	s.closed = true
	s.notifyAll()
	s.mu.Unlock()
}

// discard ends the stream and forgets what it holds. It reports whether somebody might
// have come for that.
func (s *stream) discard() (undelivered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	undelivered = s.unread > 0
	s.closed, s.broken = true, s.broken || undelivered || s.partial
	if s.timer != nil {
		s.timer.Stop()
	}
	s.letGo()
	s.notifyAll()
	return undelivered
}

// delivered reports whether the stream has ended and everything was taken.
func (s *stream) delivered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && s.unread == 0
}

// wasBroken reports whether the stream ended without its result.
func (s *stream) wasBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// sendAway ends the present connection, not the stream: the client is asked to come back
// after retry (SEP-1699).
func (s *stream) sendAway(retry time.Duration) {
	s.mu.Lock()
	s.readers++
	s.attached, s.away = false, time.Now()
	s.retry = retry
	s.mu.Unlock()
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// notifyAll wakes the reader and the writers. mu is held.
func (s *stream) notifyAll() {
	s.signal()
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// attach makes the caller the one reader and returns its turn and the event that it
// begins with: the one numbered after, or when that is negative, the first one that
// nobody has taken.
func (s *stream) attach(after int) (turn, seq int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers++
	s.retry, s.attached = 0, true
	if after >= 0 {
		s.rewind(after)
	}
	s.notifyAll()
	if i := s.at - s.base; i < len(s.pieces) {
		return s.readers, s.pieces[i].seq
	}
	return s.readers, s.next
}

// rewind makes the event numbered seq the next one to take. Where it is gone, the answer
// to a request breaks; a session's own stream goes on with what there is. mu is held.
func (s *stream) rewind(seq int) {
	seq = min(seq, s.next)
	i := 0
	for i < len(s.pieces) && s.pieces[i].seq < seq {
		i++
	}
	gone := seq < s.next || s.partial // unless it is there
	if i < len(s.pieces) {
		gone = s.pieces[i].seq != seq || !s.pieces[i].start
	}
	s.at, s.unread, s.mid = s.base+i, 0, false
	for _, p := range s.pieces[i:] {
		s.unread += len(p.data)
	}
	if gone && s.request != nil {
		s.breakOff(errNotKept)
	}
}

// issued reports whether a reader can go on at a number: every event before it was sent.
func (s *stream) issued(next int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return next >= 0 && next <= s.next
}

// detach notes that a reader has gone; stuck when it did not read.
func (s *stream) detach(turn int, stuck bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if turn != s.readers {
		s.signal() // the wake-up may have been meant for the new reader
		return
	}
	s.attached, s.away = false, time.Now()
	if stuck {
		s.away = s.away.Add(-slowReader)
	}
	if !s.resumable && !s.closed { // nobody comes back
		s.closed, s.broken = true, true
		s.letGo()
	}
	s.notifyAll()
}

// abandoned reports whether the stream has ended and nobody has read it for a while.
func (s *stream) abandoned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && !s.attached && time.Since(s.away) > deliveredFor
}

// take returns the next pieces; more is false when none will follow for this reader.
func (s *stream) take(turn int) (pieces []piece, more bool, retry time.Duration) {
	if s.resumable {
		s.budget.makeRoom(s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if turn != s.readers {
		return nil, false, s.retry
	}
	rest := s.pieces[s.at-s.base:]
	n, bytes := 0, 0
	for n < len(rest) && (n == 0 || bytes+len(rest[n].data) <= takeBytes) {
		bytes += len(rest[n].data)
		n++
	}
	pieces = append(pieces, rest[:n]...)
	s.at += n
	s.unread -= bytes
	if n > 0 {
		s.mid, s.takenAt = !pieces[n-1].end, time.Now()
		s.trim()
		if s.room != nil {
			close(s.room)
			s.room = nil
		}
	}
	return pieces, !s.closed || s.at-s.base < len(s.pieces), 0
}

// isTurn reports whether this reader is still the one.
func (s *stream) isTurn(turn int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return turn == s.readers
}

// trim forgets what was taken and need not or cannot be kept. mu is held.
func (s *stream) trim() {
	taken := s.at - s.base
	current := s.next // the event that is being taken
	if taken > 0 {
		current = s.pieces[taken-1].seq
	}
	n := 0
	for read := s.size - s.unread; n < taken; n++ {
		p := &s.pieces[n]
		keep := s.resumable && s.budget.room() && (p.seq == current || read <= streamBytes)
		if keep {
			break
		}
		read -= len(p.data)
		s.forgetBytes(len(p.data))
		*p = piece{}
	}
	s.pieces = s.pieces[n:]
	s.base += n
}

// age forgets what was taken a while ago by a reader that is still there.
func (s *stream) age(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken := s.at - s.base; s.attached && !s.mid && taken > 0 && now.Sub(s.takenAt) > deliveredFor {
		s.forgetBytes(s.size - s.unread)
		clear(s.pieces[:taken])
		s.pieces, s.base = s.pieces[taken:], s.at
	}
}

// expire has f called after d, instead of what was to be called before.
func (s *stream) expire(d time.Duration, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.timer = nil; f != nil {
		s.timer = time.AfterFunc(d, f)
	}
}

// eventID is the id of one event; "" on a stream that cannot be resumed.
func (s *stream) eventID(seq int) string {
	if !s.resumable {
		return ""
	}
	return s.id + "/" + strconv.Itoa(seq)
}

// parseEventID splits a Last-Event-ID into the stream and the number of the event to go on with.
func parseEventID(id string) (stream string, next int, ok bool) {
	stream, seq, ok := strings.Cut(id, "/")
	n, err := strconv.Atoi(seq)
	return stream, n + 1, ok && err == nil && n >= -1
}
