package jsonscan

import (
	"bytes"
	"encoding/json"
)

// Set returns a copy of obj with its member key set to value; every other byte is
// unchanged. An absent key is added at the end. A nil or null obj counts as {}.
func Set(obj []byte, key string, value []byte) json.RawMessage {
	if len(obj) == 0 || obj[0] != '{' {
		obj = []byte("{}")
	}
	last, has := member{}, false
	eachMember(obj, func(m member) bool {
		if string(m.key) == key {
			last, has = m, true
		}
		return true
	})
	if has {
		return splice(obj, last.value, last.end, value)
	}
	return add(obj, key, value)
}

// add adds a member at the end of obj.
func add(obj []byte, key string, value []byte) json.RawMessage {
	end := bytes.LastIndexByte(obj, '}')
	out := make([]byte, 0, len(obj)+len(key)+len(value)+4)
	out = append(out, obj[:end]...)
	if i := skipSpace(obj, 1); obj[i] != '}' {
		out = append(out, ',')
	}
	out = append(append(out, Quote(key)...), ':')
	return append(append(out, value...), obj[end:]...)
}

func splice(b []byte, from, to int, with []byte) json.RawMessage {
	out := make([]byte, 0, len(b)-(to-from)+len(with))
	out = append(out, b[:from]...)
	out = append(out, with...)
	return append(out, b[to:]...)
}

// Delete returns obj without the members for which drop is true; every other member
// keeps its bytes. When nothing is dropped, it returns obj itself.
func Delete(obj []byte, drop func(key string) bool) json.RawMessage {
	var kept []member
	dropped := false
	eachMember(obj, func(m member) bool {
		if drop(string(m.key)) {
			dropped = true
		} else {
			kept = append(kept, m)
		}
		return true
	})
	if !dropped {
		return obj
	}
	out := make([]byte, 0, len(obj))
	out = append(out, '{')
	for i, m := range kept {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, obj[m.start:m.end]...)
	}
	return append(out, '}')
}

// Map returns obj with the value that f returns for each member; a nil value leaves the
// member out. When nothing changes, it returns obj itself.
func Map(obj []byte, f func(key string, value json.RawMessage) json.RawMessage) json.RawMessage {
	var out []byte // nil until something changes
	kept := 0      // end of the last unchanged member
	eachMember(obj, func(m member) bool {
		value := obj[m.value:m.end:m.end]
		now := f(string(m.key), value)
		if out == nil {
			if len(now) == len(value) && &now[0] == &value[0] {
				kept = m.end
				return true
			}
			out = append(make([]byte, 0, len(obj)+len(now)), obj[:kept]...)
		}
		if now == nil {
			return true
		}
		if len(out) > 0 {
			out = append(out, ',')
		} else {
			out = append(out, '{')
		}
		out = append(append(out, obj[m.start:m.value]...), now...)
		return true
	})
	switch {
	case out == nil:
		return obj
	case len(out) == 0:
		return json.RawMessage("{}")
	}
	return append(out, '}')
}
