package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Event is one server-sent event.
type Event struct {
	ID    string        // "" when the event had none
	HasID bool          // an empty id field resets the last event id
	Name  string        // "" means "message"
	Data  []byte        // lines joined by \n
	Retry time.Duration // 0 when absent
}

// ErrEventTooLarge is the error for an event that exceeds the reader's limit.
var ErrEventTooLarge = errors.New("server-sent event is larger than the limit")

// EventReader reads a text/event-stream (WHATWG HTML, section 9.2). Comments and
// unknown fields are skipped.
type EventReader struct {
	r     *bufio.Reader
	limit int
	first bool
	long  []byte // a line that did not fit r's buffer, reused

	part partState // of the event that NextPart returned in part
	tail []byte    // of its data: read, not returned yet
}

// partState is the position of Read in an event's data.
type partState int

const (
	noPart  partState = iota
	inLine            // within a line
	lineEnd           // after a line; another one may follow
)

const (
	eventBuffer = 4 << 10
	// keptLine bounds the buffer for long lines that is kept for the next one, in bytes.
	keptLine = 128 << 10
)

// NewEventReader reads events of at most limit bytes from r.
func NewEventReader(r io.Reader, limit int) *EventReader {
	return NewEventReaderSize(r, limit, eventBuffer)
}

// NewEventReaderSize is NewEventReader with a buffer of size bytes.
func NewEventReaderSize(r io.Reader, limit, size int) *EventReader {
	return &EventReader{r: bufio.NewReaderSize(r, size), limit: limit, first: true}
}

// Reset makes r read events of at most limit bytes from src, reusing its buffers.
func (r *EventReader) Reset(src io.Reader, limit int) {
	r.r.Reset(src)
	r.limit, r.first, r.part, r.tail = limit, true, noPart, nil
}

// Next returns the next event that has any field. The data is the caller's to keep. At
// the end of the stream it returns io.EOF; an incomplete event is dropped.
func (r *EventReader) Next() (Event, error) {
	e, _, err := r.next(nil)
	return e, err
}

// NextPart is Next for events whose data may be large: the data may be in into, and when it
// does not fit, whole is false and Read returns the rest. Fields after the data of such an
// event are ignored.
func (r *EventReader) NextPart(into []byte) (e Event, whole bool, err error) {
	return r.next(into)
}

func (r *EventReader) next(into []byte) (e Event, whole bool, err error) {
	some, size := false, 0
	for {
		line, whole, err := r.line(r.limit-size, cap(into))
		if err != nil {
			return Event{}, false, err
		}
		if value, ok := dataValue(line); !whole && ok && e.Data == nil {
			e.Data = append(into[:0], value...)
			r.part = inLine
			return e, false, nil
		}
		if !whole {
			if line, err = r.restOf(line, size); err != nil {
				return Event{}, false, err
			}
		}
		size += len(line)
		if len(line) == 0 {
			if some {
				e.Data = bytes.TrimSuffix(e.Data, []byte{'\n'})
				return e, true, nil
			}
			size = 0
			continue
		}
		if e.field(line, into) {
			some = true
		}
	}
}

// restOf returns the whole of a line whose beginning was read.
func (r *EventReader) restOf(line []byte, size int) ([]byte, error) {
	start := bytes.Clone(line)
	rest, _, err := r.line(r.limit-size-len(start), 0)
	return append(start, rest...), err
}

// dataValue returns the value of a data line.
func dataValue(line []byte) ([]byte, bool) {
	name, value, ok := bytes.Cut(line, []byte{':'})
	return bytes.TrimPrefix(value, []byte{' '}), ok && string(name) == "data"
}

// Read reads the rest of the data of an event that NextPart returned in part, up to io.EOF.
func (r *EventReader) Read(p []byte) (int, error) {
	for len(r.tail) == 0 {
		if err := r.goOn(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.tail)
	r.tail = r.tail[n:]
	return n, nil
}

// Ended reports whether the data of an event that NextPart returned in part was read to
// its end.
func (r *EventReader) Ended() bool { return r.part == noPart && len(r.tail) == 0 }

// goOn reads more of an event's data into tail.
func (r *EventReader) goOn() error {
	switch r.part {
	case noPart:
		return io.EOF
	case lineEnd:
		return r.follow()
	}
	piece, err := r.r.ReadSlice('\n')
	switch {
	case err == bufio.ErrBufferFull && piece[len(piece)-1] == '\r':
		r.tail, err = piece[:len(piece)-1], r.r.UnreadByte() // it may be part of the line end
	case err == bufio.ErrBufferFull:
		r.tail, err = piece, nil
	case err == nil:
		r.tail, r.part = bytes.TrimSuffix(piece[:len(piece)-1], []byte{'\r'}), lineEnd
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return err
}

// follow reads the line after a data line.
func (r *EventReader) follow() error {
	line, _, err := r.line(r.limit, 0)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if len(line) == 0 {
		r.part = noPart
	}
	if value, ok := dataValue(line); ok {
		r.tail = append([]byte{'\n'}, value...)
	}
	return nil
}

// field processes one line and reports whether it is a known field. Data is stored in
// into if it fits.
func (e *Event) field(line, into []byte) bool {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		if e.Data == nil && len(value) < cap(into) {
			e.Data = into[:0]
		} else if e.Data == nil {
			e.Data = make([]byte, 0, len(value)+1)
		}
		e.Data = append(append(e.Data, value...), '\n')
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.ID, e.HasID = string(value), true
		}
	case "event":
		e.Name = string(value)
	case "retry":
		ms, err := strconv.ParseUint(string(value), 10, 31)
		if err != nil {
			return false
		}
		e.Retry = time.Duration(ms) * time.Millisecond
	default:
		return false
	}
	return true
}

// line returns the next line without its end, or \r . Of a line longer than stop, unless that
// is 0, it returns only the beginning, and whole is false. The line is valid until the next
// call.
func (r *EventReader) line(limit, stop int) (line []byte, whole bool, err error) {
	if cap(r.long) > keptLine {
		r.long = nil
	}
	long := r.long[:0]
	for {
		part, err := r.r.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return nil, false, err
		}
		if len(long)+len(part) > limit+2 {
			return nil, false, fmt.Errorf("%w of %d bytes", ErrEventTooLarge, r.limit)
		}
		if err == bufio.ErrBufferFull {
			long = append(long, part...)
			r.long = long
			if stop > 0 && len(long)+r.r.Size() > stop && part[len(part)-1] != '\r' {
				return r.withoutMark(long), false, nil
			}
			continue
		}
		if len(long) > 0 {
			long = append(long, part...)
			r.long, part = long, long
		}
		return r.withoutMark(bytes.TrimSuffix(part[:len(part)-1], []byte{'\r'})), true, nil
	}
}

// withoutMark removes the byte order mark from the first line.
func (r *EventReader) withoutMark(line []byte) []byte {
	if !r.first {
		return line
	}
	r.first = false
	return bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
}
