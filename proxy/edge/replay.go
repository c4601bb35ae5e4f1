package edge

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// replaySession is how much of what was sent already the streams of one session keep
	// for a client that resumes, together with what it has not got yet.
	replaySession = 8 << 20
	// replayTotal is the same for all sessions.
	replayTotal = 32 << 20
	// streamsTotal is how much all streams hold, with what nobody took, before each may
	// hold little and the oldest ended ones go.
	streamsTotal = 64 << 20
	// keptStreams is how many ended streams of a session can still be resumed.
	keptStreams = 8
	// deliveredFor is how long the end of a stream is kept that was delivered whole.
	deliveredFor = 10 * time.Second
	// evictedAtOnce is how many ended streams at most make room for one piece.
	evictedAtOnce = 16
	// undeliveredFor is how long it is kept for a client that lost its connection.
	undeliveredFor = 10 * time.Minute
)

// replays is what all streams of the process hold, and the ended ones in their order.
type replays struct {
	held                     atomic.Int64
	dropped, broken, evicted atomic.Uint64
	mu                       sync.Mutex
	ended                    []endedStream // guarded by mu, oldest first
}

type endedStream struct {
	session *Session
	stream  *stream
}

// budget is what the streams of one session hold together. A nil one has no bounds.
type budget struct {
	session *Session
	all     *replays
	held    atomic.Int64
}

func (b *budget) add(n int) {
	if b != nil {
		b.held.Add(int64(n))
		b.all.held.Add(int64(n))
	}
}

// room reports whether what a client has got already may be kept.
func (b *budget) room() bool {
	return b == nil || b.held.Load() <= replaySession && b.all.held.Load() <= replayTotal
}

// makeRoom lets ended streams go that nobody has come back for, where what they hold leaves
// no room for the stream that is being read: those of the same session, then the oldest.
func (b *budget) makeRoom(reading *stream) {
	if b.room() {
		return
	}
	if b.held.Load() > replaySession {
		b.evict(b.session.endedStreams(reading))
	}
	if b.all.held.Load() > replayTotal {
		b.evict(b.all.oldest(reading))
	}
}

// evict lets streams go until there is room, but none that its client may be coming for.
func (b *budget) evict(ended []endedStream) {
	for _, e := range ended {
		if b.room() {
			return
		}
		if e.stream.abandoned() {
			e.session.dropStream(e.stream)
		}
	}
}

// tight reports whether all streams together hold so much that each may hold little.
func (b *budget) tight() bool { return b != nil && b.all.held.Load() > streamsTotal }

func (b *budget) dropped() {
	if b != nil {
		b.all.dropped.Add(1)
	}
}

// add notes that a stream has ended and can be resumed. The oldest go when all hold too much.
func (r *replays) add(s *Session, st *stream) {
	r.mu.Lock()
	r.ended = append(r.ended, endedStream{s, st})
	var out []endedStream
	for excess := r.held.Load() - streamsTotal; excess > 0 && len(r.ended) > 1; r.ended = r.ended[1:] {
		e := r.ended[0]
		e.stream.mu.Lock()
		excess -= int64(e.stream.size)
		e.stream.mu.Unlock()
		out = append(out, e)
	}
	r.mu.Unlock()
	for _, e := range out {
		e.session.dropStream(e.stream)
	}
}

// oldest is some of the ended streams, the oldest first: few, for who wants them is sending.
func (r *replays) oldest(except *stream) (out []endedStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.ended {
		if e.stream != except {
			out = append(out, e)
		}
		if len(out) == evictedAtOnce {
			break
		}
	}
	return out
}

// endedStreams is the same of one session.
func (s *Session) endedStreams(except *stream) (out []endedStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.ended {
		if st != except {
			out = append(out, endedStream{s, st})
		}
	}
	return out
}

// remove forgets a stream that is not kept any more.
func (r *replays) remove(st *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = slices.DeleteFunc(r.ended, func(e endedStream) bool { return e.stream == st })
}

// endStream ends a stream and keeps it for a while, for a client that comes back for it,
// unless the session has ended.
func (s *Session) endStream(st *stream) (kept bool) {
	st.close()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	s.ended = append(s.ended, st)
	var oldest *stream
	if len(s.ended) > keptStreams {
		oldest = s.ended[0]
	}
	s.mu.Unlock()
	if oldest != nil {
		s.dropStream(oldest)
	}
	if s.budget != nil {
		s.budget.all.add(s, st)
	}
	st.expire(undeliveredFor, func() { s.dropStream(st) })
	return true
}

// delivered shortens the time that an ended stream is kept whose events were all sent.
func (s *Session) delivered(st *stream) {
	if st.id != standaloneID+s.epoch && st.delivered() {
		st.expire(deliveredFor, func() { s.dropStream(st) })
	}
}

// dropStream forgets an ended stream.
func (s *Session) dropStream(st *stream) {
	s.mu.Lock()
	delete(s.streams, st.id)
	s.ended = slices.DeleteFunc(s.ended, func(other *stream) bool { return other == st })
	s.mu.Unlock()
	undelivered := st.discard()
	if s.budget != nil {
		s.budget.all.remove(st)
		if undelivered {
			s.budget.all.evicted.Add(1)
		}
	}
}
