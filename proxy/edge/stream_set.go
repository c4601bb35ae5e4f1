package edge

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// replaySession bounds the bytes that the streams of one session keep for resuming: sent ones, together with those
	// that are not sent yet.
	replaySession = 8 << 20
	// replayTotal is the bound for the sent bytes of all sessions.
	replayTotal = 32 << 20
	// streamsTotal is the number of bytes in all streams from which each stream may have only little, and the oldest
	// ended ones are dropped.
	streamsTotal = 64 << 20
	// keptStreams is the number of ended streams of a session that can still be resumed.
	keptStreams = 8
	// deliveredFor is how long the end of a stream is kept whose events were all sent.
	deliveredFor = 10 * time.Second
	// evictedAtOnce bounds the ended streams that are dropped for one piece.
	evictedAtOnce = 16
	// undeliveredFor is how long an ended stream is kept whose events were not all sent.
	undeliveredFor = 10 * time.Minute
)

// streamHeld is the largest number of bytes that all clients together can occupy in streams.
const streamHeld = streamsTotal + replayTotal

// pool accounts for the bytes of all streams of the process, and lists the ended ones.
type pool struct {
	held                     atomic.Int64
	dropped, broken, evicted atomic.Uint64
	mu                       sync.Mutex
	ended                    []endedStream // guarded by mu, oldest first
}

type endedStream struct {
	set    *set
	stream *stream
}

// streamStats are the bytes in streams, and the counters of notifications and responses that did not reach their client.
type streamStats struct {
	Held                     int64
	Dropped, Broken, Evicted uint64
}

// Stats reads the current state.
func (p *pool) Stats() streamStats {
	return streamStats{Held: p.held.Load(), Dropped: p.dropped.Load(), Broken: p.broken.Load(), Evicted: p.evicted.Load()}
}

// set has the streams of one session: the standalone one, and those of responses, which are kept for a while after
// their end.
type set struct {
	budget budget
	epoch  string // prefix of the ids of an adopted session's streams, so that they differ from those of its previous owners

	mu         sync.Mutex
	standalone *stream            // guarded by mu, like all below: for what belongs to no request
	streams    map[string]*stream // resumable ones, by id
	ended      []*stream          // those of streams that have ended, oldest first
	serial     int                // number of the next stream
	closed     bool
}

// newSet makes the Set of a session. epoch is "" unless the session was adopted.
func newSet(p *pool, epoch string) *set {
	s := &set{epoch: epoch}
	s.budget.set, s.budget.pool = s, p
	return s
}

// ownID is the id of the standalone stream.
const ownID = "g"

// Adopted reports whether the session was adopted from another replica, whose streams cannot be resumed here.
func (s *set) Adopted() bool { return s.epoch != "" }

// Standalone is the stream for what belongs to no request, made on first use.
func (s *set) Standalone() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.standalone == nil {
		s.standalone = newStream(ownID+s.epoch, &s.budget)
		s.standalone.closed = s.closed
	}
	return s.standalone
}

// New makes a resumable stream for the response to a request. cancel cancels the request; nil if nothing does.
func (s *set) New(request json.RawMessage, cancel func()) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	st := newStream("p"+s.epoch+strconv.Itoa(s.serial), &s.budget)
	st.request, st.cancel = request, cancel
	if s.streams == nil {
		s.streams = map[string]*stream{}
	}
	s.streams[st.id] = st
	return st
}

// Once makes a stream that is not resumable.
func (s *set) Once(request json.RawMessage, cancel func()) *stream {
	st := newStream("", &s.budget)
	st.request, st.cancel = request, cancel
	return st
}

// Find finds the stream that a Last-Event-ID names; nil if there is none.
func (s *set) Find(id string) *stream {
	if id == ownID+s.epoch {
		return s.Standalone()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[id]
}

// Close ends the streams of a session that ends.
func (s *set) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.standalone != nil {
		s.standalone.Discard()
	}
	for _, st := range s.ended { // the others end with their requests, which are cancelled
		st.Discard()
		s.budget.pool.remove(st)
	}
}

// Age drops what the streams no longer have to keep.
func (s *set) Age(now time.Time) {
	s.mu.Lock()
	all := slices.AppendSeq(make([]*stream, 0, len(s.streams)+1), maps.Values(s.streams))
	if s.standalone != nil {
		all = append(all, s.standalone)
	}
	s.mu.Unlock()
	for _, st := range all {
		st.age(now)
	}
}

// budget accounts for the bytes of one session's streams. A nil budget has no bounds.
type budget struct {
	set  *set
	pool *pool
	held atomic.Int64
}

func (b *budget) add(n int) {
	if b != nil {
		b.held.Add(int64(n))
		b.pool.held.Add(int64(n))
	}
}

// room reports whether bytes that were sent may be kept.
func (b *budget) room() bool {
	return b == nil || b.held.Load() <= replaySession && b.pool.held.Load() <= replayTotal
}

// makeRoom drops ended streams that were not resumed, if the stream that is being read has no room otherwise: first
// those of the same session, then the oldest.
func (b *budget) makeRoom(reading *stream) {
	if b.room() {
		return
	}
	if b.held.Load() > replaySession {
		b.evict(b.set.endedStreams(reading))
	}
	if b.pool.held.Load() > replayTotal {
		b.evict(b.pool.oldest(reading))
	}
}

// evict drops streams until there is room, except those that a client may still resume.
func (b *budget) evict(ended []endedStream) {
	for _, e := range ended {
		if b.room() {
			return
		}
		if e.stream.abandoned() {
			e.set.drop(e.stream)
		}
	}
}

// tight reports whether all streams together have so many bytes that each may have only little.
func (b *budget) tight() bool { return b != nil && b.pool.held.Load() > streamsTotal }

func (b *budget) dropped() {
	if b != nil {
		b.pool.dropped.Add(1)
	}
}

// add registers an ended, resumable stream, and drops the oldest ones if there is no room.
func (p *pool) add(s *set, st *stream) {
	p.mu.Lock()
	p.ended = append(p.ended, endedStream{s, st})
	var out []endedStream
	for excess := p.held.Load() - streamsTotal; excess > 0 && len(p.ended) > 1; p.ended = p.ended[1:] {
		e := p.ended[0]
		e.stream.mu.Lock()
		excess -= int64(e.stream.size)
		e.stream.mu.Unlock()
		out = append(out, e)
	}
	p.mu.Unlock()
	for _, e := range out {
		e.set.drop(e.stream)
	}
}

// oldest returns the oldest ended streams, only a few: the caller is sending.
func (p *pool) oldest(except *stream) (out []endedStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.ended {
		if e.stream != except {
			out = append(out, e)
		}
		if len(out) == evictedAtOnce {
			break
		}
	}
	return out
}

// endedStreams is oldest for one session.
func (s *set) endedStreams(except *stream) (out []endedStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.ended {
		if st != except {
			out = append(out, endedStream{s, st})
		}
	}
	return out
}

// remove removes a stream that is no longer kept.
func (p *pool) remove(st *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = slices.DeleteFunc(p.ended, func(e endedStream) bool { return e.stream == st })
}

// End ends a stream and keeps it for a while, for a client that resumes it, unless the session has ended.
func (s *set) End(st *stream) (kept bool) {
	st.Close()
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
		s.drop(oldest)
	}
	s.budget.pool.add(s, st)
	st.expire(undeliveredFor, func() { s.drop(st) })
	return true
}

// Delivered shortens the time for which an ended stream is kept, since all its events were sent.
func (s *set) Delivered(st *stream) {
	if st.id != ownID+s.epoch && st.delivered() {
		st.expire(deliveredFor, func() { s.drop(st) })
	}
}

// drop removes an ended stream.
func (s *set) drop(st *stream) {
	s.mu.Lock()
	delete(s.streams, st.id)
	s.ended = slices.DeleteFunc(s.ended, func(other *stream) bool { return other == st })
	s.mu.Unlock()
	undelivered := st.Discard()
	s.budget.pool.remove(st)
	if undelivered {
		s.budget.pool.evicted.Add(1)
	}
}
