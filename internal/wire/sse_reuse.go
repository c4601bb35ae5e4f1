package wire

import "io"

// Reset makes r read events of at most limit bytes from src, with the buffer it has.
func (r *EventReader) Reset(src io.Reader, limit int) {
	r.r.Reset(src)
	r.limit, r.first = limit, true
}
