package jsonscan

import (
	"bytes"
	"fmt"
	"io"
)

// Decision is what an Edit does with a member.
type Decision int

const (
	Keep   Decision = iota // write its bytes unchanged
	Drop                   // leave it out
	Change                 // collect its value and call Edit.Change
)

const (
	// maxChanged bounds a value that is collected from pieces to be changed; a longer one is
	// unchanged.
	maxChanged = 64 << 10
	// maxGap bounds the bytes between two values, a key with white space, that are kept between pieces.
	maxGap = 64 << 10
)

// Edit is a change to the top level of one JSON object.
type Edit struct {
	// Decide is called for each member in order.
	Decide func(key string) Decision
	// Change returns the new value of a member; nil drops it.
	Change func(key string, value []byte) []byte
	// Close returns members to add at the end, such as `"a":1`, or nil.
	Close func() []byte
}

// Apply edits a whole object. An object that needs no change is returned itself.
func (e Edit) Apply(obj []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(obj) + 64)
	editor := e.Editor()
	editor.most = len(obj)
	n, _, err := editor.Write(&out, obj)
	if err != nil {
		return obj
	}
	out.Write(obj[n:])
	if bytes.Equal(out.Bytes(), obj) {
		return obj
	}
	return out.Bytes()
}

// Editor starts the edit of one value that is received in pieces. The Editor of the
// zero Edit changes nothing, and finds the end of the value.
func (e Edit) Editor() *Editor {
	f := &Editor{edit: e, most: maxChanged}
	if e.Decide == nil {
		f.phase = plain
	}
	return f
}

// Editor is the state of an edit between two pieces of one value. Bytes are written as
// they are received; memory does not grow with the value.
type Editor struct {
	edit    Edit
	most    int // bound of a value that is collected to be changed
	phase   phase
	scan    Scanner // of the member's value, or of a value that is not an object
	scanned bool    // the member's value is complete, but for white space after it
	esc     bool    // in a key, after a backslash
	emitted bool    // a member has been written
	gap     []byte  // the bytes between two values; a part of the piece until kept
	kept    bool    // gap is a copy
	key     []byte  // with its quotes
	value   []byte  // collected to be changed
	what    Decision
	out     output
	err     error // of the value; nothing more is written
}

// output writes adjacent bytes in memory, such as an unchanged piece, in one write. It keeps
// the first error.
type output struct {
	w       io.Writer
	pending []byte
	err     error
}

func (o *output) write(p []byte) {
	switch {
	case len(p) == 0:
	case Adjacent(o.pending, p):
		o.pending = o.pending[:len(o.pending)+len(p)]
	default:
		o.flush()
		o.pending = p
	}
}

func (o *output) flush() {
	if o.err == nil && len(o.pending) > 0 {
		_, o.err = o.w.Write(o.pending)
	}
	o.pending = nil
}

// Adjacent reports whether b directly follows a in memory.
func Adjacent(a, b []byte) bool {
	return len(a) > 0 && len(b) > 0 && cap(a) > len(a) && &a[:len(a)+1][len(a)] == &b[0]
}

// Write edits the next piece of the value, and writes the result to w, in one write where
// nothing is changed. The first piece must start with the value or white space before it. It
// returns how many bytes of p belong to the value, and whether the value has ended.
func (f *Editor) Write(w io.Writer, p []byte) (n int, ended bool, err error) {
	f.out = output{w: w}
	for n < len(p) && f.phase != done && f.err == nil {
		switch f.phase {
		case inValue:
			n += f.passValue(p[n:])
		case plain:
			n += f.passPlain(p[n:])
		default:
			if f.step(p[n : n+1 : len(p)]) {
				n++
			}
		}
	}
	f.out.flush()
	if !f.kept {
		f.gap, f.kept = bytes.Clone(f.gap), true
	}
	if len(f.gap) > maxGap && f.err == nil {
		f.err = fmt.Errorf("more than %d bytes between two values", maxGap)
	}
	if f.err == nil {
		f.err = f.out.err
	}
	return n, f.phase == done, f.err
}

// passPlain writes a value that is not edited.
func (f *Editor) passPlain(b []byte) int {
	n, ended, err := f.scan.Scan(b)
	if err != nil {
		f.err = err
		return n
	}
	f.out.write(b[:n])
	if ended {
		f.phase = done
	}
	return n
}

type phase int

const (
	before  phase = iota // before the object's brace
	between              // before a key or the end
	inKey
	colon // after a key
	lead  // white space before a value
	inValue
	plain // in a value that is not an object
	done
)

// step processes one byte outside a value; false when the byte starts a value and is not consumed.
func (f *Editor) step(p []byte) bool {
	c := p[0]
	switch f.phase {
	case before:
		if c != '{' && c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			f.phase = plain
			return false
		}
		f.out.write(p)
		if c == '{' {
			f.phase = between
		}
	case between:
		switch c {
		case '"':
			f.key = append(f.key[:0], c)
			f.phase = inKey
		case '}':
			f.finish()
			f.out.write(p)
			f.phase = done
			return true
		}
		f.widen(p)
	case inKey:
		f.widen(p)
		f.key = append(f.key, c)
		if f.esc {
			f.esc = false
		} else if c == '\\' {
			f.esc = true
		} else if c == '"' {
			f.phase = colon
		}
	case colon:
		f.widen(p)
		if c == ':' {
			f.phase = lead
		}
	case lead:
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			f.widen(p)
			return true
		}
		f.open()
		return false
	}
	return true
}

// widen adds p to the gap, without a copy where p directly follows it.
func (f *Editor) widen(p []byte) {
	switch {
	case len(f.gap) == 0:
		f.gap, f.kept = p, false
	case Adjacent(f.gap, p):
		f.gap = f.gap[:len(f.gap)+len(p)]
	default:
		f.gap = append(f.gap, p...)
	}
}

// open calls Decide for the member whose value starts.
func (f *Editor) open() {
	f.phase, f.value = inValue, nil
	f.scan, f.scanned = Scanner{}, false
	f.what = f.edit.Decide(string(unescape(f.key)))
	if f.what == Keep {
		f.emitGap()
	}
}

// emitGap writes the bytes between the last written value and this one.
func (f *Editor) emitGap() {
	gap := f.gap
	if !f.emitted {
		if i := bytes.IndexByte(gap, ','); i >= 0 && i < bytes.IndexByte(gap, '"') {
			gap = append(gap[:i:i], gap[i+1:]...)
		}
	}
	f.out.write(gap)
	f.gap = nil
	f.emitted = true
}

// passValue processes the bytes of a value and returns how many belong to it.
func (f *Editor) passValue(b []byte) int {
	n, ended := f.scanValue(b)
	switch f.what {
	case Keep:
		f.out.write(b[:n])
	case Change:
		if len(f.value)+n > f.most {
			f.emitGap()
			f.out.write(f.value)
			f.out.write(b[:n])
			f.what, f.value = Keep, nil
		} else {
			f.value = append(f.value, b[:n]...)
		}
	}
	if ended {
		f.closeValue()
	}
	return n
}

func (f *Editor) closeValue() {
	f.phase = between
	if f.what == Change {
		trimmed := bytes.TrimRight(f.value, " \n\r\t")
		if v := f.edit.Change(string(unescape(f.key)), trimmed); v != nil {
			f.emitGap()
			f.out.write(v)
		}
	}
	f.gap = nil
}

// scanValue counts the bytes up to the comma or brace after the value: white space after
// a value belongs to it.
func (f *Editor) scanValue(b []byte) (n int, ended bool) {
	if !f.scanned {
		var err error
		if n, f.scanned, err = f.scan.Scan(b); err != nil {
			f.err = err
			return n, false
		}
	}
	for f.scanned && n < len(b) {
		if b[n] == ',' || b[n] == '}' {
			return n, true
		}
		n++
	}
	return n, false
}

// finish writes the result of Close, before the white space before the closing brace.
func (f *Editor) finish() {
	var add []byte
	if f.edit.Close != nil {
		add = f.edit.Close()
	}
	if len(add) > 0 {
		if f.emitted {
			f.out.write([]byte{','})
		}
		f.out.write(add)
	}
	f.out.write(bytes.TrimLeft(f.gap, ","))
	f.gap = nil
}
