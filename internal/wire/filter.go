package wire

import (
	"bytes"
	"io"
)

// Decision says what happens to a member of a filtered object.
type Decision int

const (
	Keep   Decision = iota // pass its bytes on
	Drop                   // leave it out
	Change                 // collect its value and ask Edit.Change
)

// maxChanged bounds a value that is collected to be changed; a longer one passes as it is.
const maxChanged = 64 << 10

// Edit is a change to the top level of one JSON object.
type Edit struct {
	// Decide is asked for each member in order.
	Decide func(key string) Decision
	// Change returns the new value of a member; nil drops it.
	Change func(key string, value []byte) []byte
	// Close returns members to add at the end, such as `"a":1`, or nil.
	Close func() []byte
}

// Apply edits a whole object. An object that needs no change is returned as it is.
func (e Edit) Apply(obj []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(obj) + 64)
	f := filter{edit: e}
	f.write(&out, obj)
	if bytes.Equal(out.Bytes(), obj) {
		return obj
	}
	return out.Bytes()
}

// Reader edits an object while it streams: bytes pass as they come, and memory stays
// within one buffer whatever the size of the object. Closing it closes r.
func (e Edit) Reader(r io.ReadCloser) io.ReadCloser {
	return &editReader{r: r, f: filter{edit: e}, in: make([]byte, 32<<10)}
}

type editReader struct {
	r   io.ReadCloser
	f   filter
	in  []byte
	out bytes.Buffer
	err error
}

func (e *editReader) Read(p []byte) (int, error) {
	for e.out.Len() == 0 {
		if e.err != nil {
			return 0, e.err
		}
		var n int
		n, e.err = e.r.Read(e.in)
		e.f.write(&e.out, e.in[:n])
	}
	return e.out.Read(p)
}

func (e *editReader) Close() error { return e.r.Close() }

// filter is the state between two pieces of one object.
type filter struct {
	edit    Edit
	phase   phase
	depth   int
	str     bool // inside a string
	esc     bool // behind a backslash
	emitted bool // a member has been written
	gap     []byte
	key     []byte // with its quotes
	value   []byte // collected to be changed
	what    Decision
}

type phase int

const (
	before  phase = iota // the object's brace
	between              // a key or the end comes next
	inKey
	colon // behind a key
	lead  // space in front of a value
	inValue
	done // everything else passes
)

// write takes one piece of the object.
func (f *filter) write(out *bytes.Buffer, b []byte) {
	for i := 0; i < len(b); {
		switch f.phase {
		case done:
			out.Write(b[i:])
			return
		case inValue:
			i += f.passValue(out, b[i:])
		default:
			f.step(out, b[i])
			i++
		}
	}
}

// step takes one byte outside a value.
func (f *filter) step(out *bytes.Buffer, c byte) {
	switch f.phase {
	case before:
		out.WriteByte(c)
		if c == '{' {
			f.phase = between
		} else if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			f.phase = done
		}
	case between:
		switch c {
		case '"':
			f.key = append(f.key[:0], c)
			f.phase = inKey
		case '}':
			f.finish(out)
			out.WriteByte(c)
			f.phase = done
			return
		}
		f.gap = append(f.gap, c)
	case inKey:
		f.gap = append(f.gap, c)
		f.key = append(f.key, c)
		if f.esc {
			f.esc = false
		} else if c == '\\' {
			f.esc = true
		} else if c == '"' {
			f.phase = colon
		}
	case colon:
		f.gap = append(f.gap, c)
		if c == ':' {
			f.phase = lead
		}
	case lead:
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			f.gap = append(f.gap, c)
			return
		}
		f.open(out)
		one := [1]byte{c}
		f.passValue(out, one[:])
	}
}

// open decides about the member whose value starts.
func (f *filter) open(out *bytes.Buffer) {
	f.phase, f.value = inValue, nil
	f.what = f.edit.Decide(string(unescape(f.key)))
	if f.what == Keep {
		f.emitGap(out)
	}
}

// emitGap writes what stood between the last member and this value.
func (f *filter) emitGap(out *bytes.Buffer) {
	gap := f.gap
	if !f.emitted {
		if i := bytes.IndexByte(gap, ','); i >= 0 && i < bytes.IndexByte(gap, '"') {
			gap = append(gap[:i:i], gap[i+1:]...)
		}
	}
	out.Write(gap)
	f.gap = f.gap[:0]
	f.emitted = true
}

// passValue takes the bytes of a value and returns how many belonged to it.
func (f *filter) passValue(out *bytes.Buffer, b []byte) int {
	n, ended := f.scanValue(b)
	switch f.what {
	case Keep:
		out.Write(b[:n])
	case Change:
		if len(f.value)+n > maxChanged {
			f.emitGap(out)
			out.Write(f.value)
			out.Write(b[:n])
			f.what, f.value = Keep, nil
		} else {
			f.value = append(f.value, b[:n]...)
		}
	}
	if ended {
		f.closeValue(out)
	}
	return n
}

func (f *filter) closeValue(out *bytes.Buffer) {
	f.phase = between
	if f.what == Change {
		trimmed := bytes.TrimRight(f.value, " \n\r\t")
		if v := f.edit.Change(string(unescape(f.key)), trimmed); v != nil {
			f.emitGap(out)
			out.Write(v)
		}
	}
	f.gap = f.gap[:0]
}

// scanValue counts the bytes up to the comma or brace that ends the value.
func (f *filter) scanValue(b []byte) (n int, ended bool) {
	for i := 0; i < len(b); i++ {
		c := b[i]
		if f.str {
			switch {
			case f.esc:
				f.esc = false
			case c == '\\':
				f.esc = true
			case c == '"':
				f.str = false
			}
			continue
		}
		switch c {
		case '"':
			f.str = true
		case '{', '[':
			f.depth++
		case '}', ']':
			if f.depth == 0 {
				return i, true
			}
			f.depth--
		case ',':
			if f.depth == 0 {
				return i, true
			}
		}
	}
	return len(b), false
}

// finish adds what Close returns, in front of the space before the closing brace.
func (f *filter) finish(out *bytes.Buffer) {
	var add []byte
	if f.edit.Close != nil {
		add = f.edit.Close()
	}
	if len(add) > 0 {
		if f.emitted {
			out.WriteByte(',')
		}
		out.Write(add)
	}
	out.Write(bytes.TrimLeft(f.gap, ","))
	f.gap = nil
}
