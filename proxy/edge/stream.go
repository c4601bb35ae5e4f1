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

// This part of the package has the event streams of clients, and bounds their memory.
//
// A stream is a sequence of events for one client: the response to a POST that became an event stream, or the
// standalone stream of a session for what belongs to no request. An event consists of one piece, or of many if it
// carries a large result. Handlers of requests append pieces (writers), the pump of a connection takes them (reader).
//
// A window bounds what was appended and not taken. A writer that belongs to a request blocks while a megabyte is not
// taken, and with it the backend, so that nothing is lost for a slow reader. It blocks as long as a connection reads
// (bounded by the deadline of the connection), and for slowReader without a connection. Then the stream breaks: its
// request is cancelled, its memory is released, and an error replaces the result. A client never gets a result after a
// gap.
//
// Writers that belong to no request must not block, and use Offer: it drops the oldest notifications above the window,
// but no request to the client whose response is waited for. Their number is bounded (maxAsked).
//
// Pieces that were taken are kept for resuming, as far as the budgets of the session and of the process allow (see Set
// and Pool): the event in progress, and a megabyte of those before it. A client that resumes at an event that was
// dropped gets the error.
//
// Lock order: Set.mu, Pool.mu, Stream.mu; none is held while a goroutine waits.

// slowReader is how long a client may not read what is sent to it.
const slowReader = 30 * time.Second

const (
	keepAlive = 20 * time.Second // between comments on a silent stream
	// streamBytes bounds the bytes of a stream that were not taken, and those of complete events that are kept after
	// they were.
	streamBytes = 1 << 20
	// tightBytes replaces streamBytes while all streams together have more than streamsTotal.
	tightBytes = 64 << 10
	// takeBytes is about the number of bytes that a connection takes at a time.
	takeBytes = 64 << 10
)

// Reasons why a stream accepts nothing more.
var (
	errStreamOver = errors.New("the stream has ended")
	errUnread     = wire.Errorf(wire.InternalError, "the response was dropped: it was not read for %v", slowReader)
	errNotKept    = wire.Errorf(wire.InternalError, "the connection was lost, and the rest of this response is no longer kept; call again")
)

// piece is an event, or a part of one.
type piece struct {
	data       []byte
	seq        int  // of the event
	start, end bool // of the event

	// asking is closed when the response to this request to the client is not waited for any more: until then it is not
	// dropped. It is nil for other events.
	asking <-chan struct{}
}

// stream is a sequence of events as pieces.
type stream struct {
	id        string // "" if it is not resumable
	resumable bool
	budget    *budget
	request   json.RawMessage // id of the request that it responds to; nil for a standalone stream
	cancel    func()          // cancels that request

	mu     sync.Mutex
	pieces []piece // guarded by mu, like all below
	base   int     // number of pieces[0] in the stream
	at     int     // number of the first piece that was not taken
	next   int     // the seq of the next event
	unread int     // bytes that were not taken
	size   int     // bytes of all pieces

	open     bool          // the result has begun: no other event is accepted
	partial  bool          // the last appended piece does not end an event
	mid      bool          // the last taken piece does not end an event
	takenAt  time.Time     // time of the last take
	timer    *time.Timer   // drops an ended stream
	closed   bool          // no more pieces follow
	broken   bool          // closed without its result
	readers  int           // number of attachments: a new one takes over
	attached bool          // the newest attachment is reading
	away     time.Time     // time of the last detach
	retry    time.Duration // after which the client is to reconnect
	wake     chan struct{} // capacity 1: something for the reader
	room     chan struct{} // closed when pieces were taken; nil while no writer waits
}

func newStream(id string, b *budget) *stream {
	return &stream{id: id, resumable: id != "", budget: b, wake: make(chan struct{}, 1), away: time.Now()}
}

// Resumable reports whether a client can resume the stream on another connection.
func (s *stream) Resumable() bool { return s.resumable }

// Answers reports whether the stream is the response to a request, rather than a standalone one.
func (s *stream) Answers() bool { return s.request != nil }

// Send appends an event; it blocks until there is room for it.
func (s *stream) Send(ctx context.Context, frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.await(ctx, len(frame))
	if s.open {
		err = errStreamOver // it was waiting when the result began
	}
	if err == nil {
		s.put(piece{data: frame, start: true, end: true})
	}
	return err
}

// Offer appends an event without blocking. Above the window the oldest notifications are dropped.
func (s *stream) Offer(frame []byte) { s.offer(piece{data: frame, start: true, end: true}) }

// OfferRequest is Offer for a request to the client, which is not dropped before ctx ends.
func (s *stream) OfferRequest(ctx context.Context, frame []byte) {
	asking := ctx.Done()
	if asking == nil {
		asking = make(chan struct{}) // ctx does not end
	}
	s.offer(piece{data: frame, start: true, end: true, asking: asking})
}

func (s *stream) offer(p piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.put(p)
	s.dropOldest()
}

// droppable reports whether nothing is lost with p but a notification.
func (p *piece) droppable() bool {
	if p.asking == nil {
		return true
	}
	select {
	case <-p.asking:
		return true
	default:
		return false
	}
}

// dropOldest drops the oldest notifications above the window, and requests that are not waited for. mu is held.
func (s *stream) dropOldest() {
	limit, first := s.window(), s.at-s.base
	if s.unread <= limit {
		return
	}
	kept := s.pieces[:first]
	for i, p := range s.pieces[first:] {
		newest := first+i == len(s.pieces)-1
		if s.unread > limit && !newest && p.droppable() {
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

// sendPart appends a part of the last event; it blocks until there is room for it.
func (s *stream) sendPart(ctx context.Context, p piece) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.await(ctx, len(p.data))
	if err == nil {
		s.put(p)
	}
	return err
}

// Fail ends the last event, of which parts may have been sent, with an error. A reader that has such parts is
// disconnected.
func (s *stream) Fail(err error) {
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

// forgetBytes subtracts n bytes from the size and the budgets. mu is held.
func (s *stream) forgetBytes(n int) {
	s.size -= n
	s.budget.add(-n)
}

// window is the number of bytes that may be there without being taken.
func (s *stream) window() int {
	if s.budget.tight() {
		return tightBytes
	}
	return streamBytes
}

// await blocks until n more bytes fit. mu is held, but released while it blocks.
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

// waitForRoom blocks until something has changed. mu is held, but released while it blocks.
func (s *stream) waitForRoom(ctx context.Context) {
	if s.room == nil {
		s.room = make(chan struct{})
	}
	room, limit := s.room, time.Until(s.away.Add(slowReader))
	if s.attached {
		limit = slowReader // the deadline of the connection bounds it
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

// breakOff ends the stream with an error in place of the result. mu is held.
func (s *stream) breakOff(err error) {
	mid := s.mid
	s.closed, s.broken = true, true
	s.clear()
	if s.budget != nil {
		s.budget.pool.broken.Add(1)
	}
	if s.request != nil && s.resumable {
		s.put(piece{data: wire.Failure(s.request, err), start: true, end: true})
	}
	if mid {
		s.readers++ // a reader that has a part of an event cannot continue
		s.attached, s.away = false, time.Now()
	}
	s.notifyAll()
	if s.cancel != nil {
		s.cancel()
	}
}

// clear drops all pieces. mu is held.
func (s *stream) clear() {
	s.base += len(s.pieces)
	s.at = s.base
	s.forgetBytes(s.size)
	s.pieces, s.unread = nil, 0
}

// Close ends the stream behind the pieces that are in it.
func (s *stream) Close() {
	s.mu.Lock()
	s.closed = true
	s.notifyAll()
	s.mu.Unlock()
}

// Discard ends the stream and drops its pieces. undelivered is true if a client might have resumed it for some of them.
func (s *stream) Discard() (undelivered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	undelivered = s.unread > 0
	s.closed, s.broken = true, s.broken || undelivered || s.partial
	if s.timer != nil {
		s.timer.Stop()
	}
	s.clear()
	s.notifyAll()
	return undelivered
}

// delivered reports whether the stream has ended and everything was taken.
func (s *stream) delivered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && s.unread == 0
}

// WasBroken reports whether the stream ended without its result.
func (s *stream) WasBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// SendAway ends the current connection, but not the stream: the client is to reconnect after retry (SEP-1699).
func (s *stream) SendAway(retry time.Duration) {
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

// attach makes the caller the reader, and returns its turn and the number of the first event that it gets: the one
// behind after, or, if that is negative, the first one that was not taken.
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

// rewind makes the event numbered seq the next one to take. If it was dropped, a response breaks, and a standalone
// stream continues with what there is. mu is held.
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

// Issued reports whether next is a valid position: every event before it was sent.
func (s *stream) Issued(next int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return next >= 0 && next <= s.next
}

// detach ends a reader's turn; stuck is true if it did not read.
func (s *stream) detach(turn int, stuck bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if turn != s.readers {
		s.signal() // the signal may have been for the new reader
		return
	}
	s.attached, s.away = false, time.Now()
	if stuck {
		s.away = s.away.Add(-slowReader)
	}
	if !s.resumable && !s.closed { // no client can resume it
		s.closed, s.broken = true, true
		s.clear()
	}
	s.notifyAll()
}

// abandoned reports whether the stream has ended and was not read for a while.
func (s *stream) abandoned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && !s.attached && time.Since(s.away) > deliveredFor
}

// take returns the next pieces; more is false if this reader gets none after them.
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

// isTurn reports whether the turn of a reader is still the current one.
func (s *stream) isTurn(turn int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return turn == s.readers
}

// trim drops taken pieces that need not, or may not, be kept. mu is held.
func (s *stream) trim() {
	taken := s.at - s.base
	current := s.next // the event in progress
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

// age drops pieces that an attached reader took some time ago.
func (s *stream) age(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken := s.at - s.base; s.attached && !s.mid && taken > 0 && now.Sub(s.takenAt) > deliveredFor {
		s.forgetBytes(s.size - s.unread)
		clear(s.pieces[:taken])
		s.pieces, s.base = s.pieces[taken:], s.at
	}
}

// expire calls f after d, in place of an earlier call of expire.
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

// eventID is the id of an event; "" if the stream is not resumable.
func (s *stream) eventID(seq int) string {
	if !s.resumable {
		return ""
	}
	return s.id + "/" + strconv.Itoa(seq)
}

// parseEventID splits a Last-Event-ID into the stream and the number of the event to continue with.
func parseEventID(id string) (stream string, next int, ok bool) {
	stream, seq, ok := strings.Cut(id, "/")
	n, err := strconv.Atoi(seq)
	return stream, n + 1, ok && err == nil && n >= -1
}
