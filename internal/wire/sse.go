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

// ErrEventTooLarge ends an event stream whose event exceeds the reader's limit.
var ErrEventTooLarge = errors.New("server-sent event is larger than the limit")

// EventReader reads a text/event-stream (WHATWG HTML, section 9.2). Comments and
// unknown fields are skipped.
type EventReader struct {
	r     *bufio.Reader
	limit int
	first bool
}

// NewEventReader reads events of at most limit bytes from r.
func NewEventReader(r io.Reader, limit int) *EventReader {
	return &EventReader{r: bufio.NewReaderSize(r, 4096), limit: limit, first: true}
}

// Next returns the next event that has any field. The data is the caller's to keep.
// At the end of the stream it returns io.EOF; an event cut off by it is dropped.
func (r *EventReader) Next() (Event, error) {
	var e Event
	some, size := false, 0
	for {
		line, err := r.line(r.limit - size)
		if err != nil {
			return Event{}, err
		}
		size += len(line)
		if len(line) == 0 {
			if some {
				e.Data = bytes.TrimSuffix(e.Data, []byte{'\n'})
				return e, nil
			}
			size = 0
			continue
		}
		if e.field(line) {
			some = true
		}
	}
}

// field takes one line; it reports whether it was a known field.
func (e *Event) field(line []byte) bool {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		if e.Data == nil {
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

// line returns the next line without its end, \n or \r\n.
func (r *EventReader) line(limit int) ([]byte, error) {
	var long []byte
	for {
		part, err := r.r.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return nil, err
		}
		if len(long)+len(part) > limit+2 {
			return nil, fmt.Errorf("%w of %d bytes", ErrEventTooLarge, r.limit)
		}
		if err == bufio.ErrBufferFull {
			long = append(long, part...)
			continue
		}
		if long != nil {
			part = append(long, part...)
		}
		part = bytes.TrimSuffix(part[:len(part)-1], []byte{'\r'})
		if r.first {
			r.first = false
			part = bytes.TrimPrefix(part, []byte("\xef\xbb\xbf"))
		}
		return part, nil
	}
}

// AppendEvent writes one event that carries a frame. An empty id is left out.
func AppendEvent(dst []byte, id string, frame []byte) []byte {
	if id != "" {
		dst = append(append(append(dst, "id: "...), id...), '\n')
	}
	dst = append(dst, "event: message\ndata: "...)
	dst = append(dst, Line(frame)...)
	return append(dst, "\n\n"...)
}
