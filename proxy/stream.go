package proxy

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	keepAlive   = 20 * time.Second // between comments on a silent stream
	slowReader  = 30 * time.Second // a write that takes longer ends the connection
	streamBytes = 1 << 20          // kept for a reader that is away or slow
	prefaceSize = 256
)

// A stream is one sequence of frames for one client: the answer to a POST that became
// an event stream, or a session's GET stream. Writers append and never wait; the HTTP
// handler that holds the connection pumps. A reader that went away can come back for
// what it missed while the frames are kept.
type stream struct {
	id        string // "" when it cannot be resumed
	resumable bool

	mu      sync.Mutex
	first   int      // sequence number of frames[0]
	read    int      // sequence number of the first frame nobody has read
	frames  [][]byte // guarded by mu
	size    int
	closed  bool // no more frames will come
	readers int  // counts attachments: a new one takes over from the old
	wake    chan struct{}
	retry   time.Duration // how long a client that is sent away should wait
}

func newStream(id string) *stream {
	return &stream{id: id, resumable: id != "", wake: make(chan struct{}, 1)}
}

// send appends a frame. When too much is waiting, the oldest frames are dropped.
func (s *stream) send(frame []byte) {
	s.mu.Lock()
	s.frames = append(s.frames, frame)
	s.size += len(frame)
	for s.size > streamBytes && len(s.frames) > 1 {
		s.size -= len(s.frames[0])
		s.frames[0] = nil
		s.frames = s.frames[1:]
		s.first++
	}
	s.mu.Unlock()
	s.signal()
}

// close ends the stream after the frames that are in it.
func (s *stream) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.signal()
}

// sendAway ends the present connection, not the stream: the client is told to come back
// after retry (SEP-1699).
func (s *stream) sendAway(retry time.Duration) {
	s.mu.Lock()
	s.readers++
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

// attach makes the caller the one reader and returns its turn and where it starts: at
// the frame numbered after, or when that is negative, at the first one nobody has read.
func (s *stream) attach(after int) (turn, next int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers++
	s.retry = 0
	s.signal()
	if after < 0 {
		after = s.read
	}
	return s.readers, max(after, s.first)
}

// take returns the frames from next on; more is false when none will follow for this
// reader.
func (s *stream) take(turn, next int) (frames [][]byte, from int, more bool, retry time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if turn != s.readers {
		return nil, next, false, s.retry
	}
	if next < s.first {
		next = s.first
	}
	frames = s.frames[min(next-s.first, len(s.frames)):]
	s.read = max(s.read, next+len(frames))
	if !s.resumable { // nobody will ask for them again
		s.first += len(s.frames)
		s.frames, s.size = nil, 0
	}
	return frames, next, !s.closed, 0
}

// eventID is the id of one frame; "" on a stream that cannot be resumed.
func (s *stream) eventID(seq int) string {
	if !s.resumable {
		return ""
	}
	return s.id + "/" + strconv.Itoa(seq)
}

// parseEventID splits a Last-Event-ID into the stream and the sequence number to go on from.
func parseEventID(id string) (stream string, next int, ok bool) {
	stream, seq, ok := strings.Cut(id, "/")
	n, err := strconv.Atoi(seq)
	return stream, n + 1, ok && err == nil && n >= -1
}

// eventWriter writes a stream to one HTTP connection.
type eventWriter struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	buf  []byte
	next int
	turn int
}

// startEvents sends the headers of an event stream and, where the client can resume, an
// event that carries only an id to resume from.
func startEvents(w http.ResponseWriter, s *stream, after int, prime bool) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	e := &eventWriter{w: w, rc: http.NewResponseController(w), buf: make([]byte, 0, prefaceSize)}
	e.turn, e.next = s.attach(after)
	if prime && s.resumable {
		e.buf = append(append(append(e.buf, "id: "...), s.eventID(e.next-1)...), "\ndata: \n\n"...)
	} else {
		e.buf = append(e.buf, ": stream\n\n"...)
	}
	return e
}

// errTakenOver ends a pump whose stream another connection reads now, or whose client
// was sent away.
var errTakenOver = errors.New("stream continues on another connection")

// pump writes frames until the stream ends, the client goes away (done), or another
// connection takes the stream over.
func (e *eventWriter) pump(s *stream, done <-chan struct{}) error {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	if err := e.flush(); err != nil {
		return err
	}
	for {
		frames, from, more, retry := s.take(e.turn, e.next)
		for i, f := range frames {
			e.buf = wire.AppendEvent(e.buf, s.eventID(from+i), f)
		}
		e.next = from + len(frames)
		if retry > 0 {
			e.buf = append(strconv.AppendInt(append(e.buf, "retry: "...), retry.Milliseconds(), 10), "\n\n"...)
		}
		if err := e.flush(); err != nil {
			return err
		}
		if !more {
			return e.ended(s)
		}
		select {
		case <-s.wake:
		case <-tick.C:
			e.buf = append(e.buf, ": ping\n\n"...)
		case <-done:
			return errors.New("client closed the stream")
		}
	}
}

func (e *eventWriter) ended(s *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.turn != s.readers {
		s.signal() // the wake-up may have been meant for the new reader
		return errTakenOver
	}
	return nil
}

func (e *eventWriter) flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	e.rc.SetWriteDeadline(time.Now().Add(slowReader))
	_, err := e.w.Write(e.buf)
	e.buf = e.buf[:0]
	if err == nil {
		err = e.rc.Flush()
	}
	e.rc.SetWriteDeadline(time.Time{})
	return err
}
