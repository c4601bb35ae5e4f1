package jsonscan

import (
	"encoding/json"
	"strconv"
)

// Object builds a JSON object member by member, in order. It does not check for duplicate keys;
// use Set to edit an object of others. The zero Object is empty.
//
//	params := new(jsonscan.Object).Text("uri", uri).Raw("_meta", meta).JSON()
type Object struct{ text []byte }

// Raw adds a member with a JSON value. With an empty value it adds nothing.
func (o *Object) Raw(key string, value []byte) *Object {
	if len(value) == 0 {
		return o
	}
	o.key(key, len(value))
	o.text = append(o.text, value...)
	return o
}

// Text adds a member with a string, which may be empty.
func (o *Object) Text(key, value string) *Object { return o.Raw(key, Quote(value)) }

// Int adds a member with an integer.
func (o *Object) Int(key string, value int64) *Object {
	o.key(key, 20)
	o.text = strconv.AppendInt(o.text, value, 10)
	return o
}

// Bool adds a member with a boolean.
func (o *Object) Bool(key string, value bool) *Object {
	o.key(key, len("false"))
	o.text = strconv.AppendBool(o.text, value)
	return o
}

// key writes the key and punctuation before a value of about size bytes.
func (o *Object) key(key string, size int) {
	if o.text == nil {
		o.text = append(make([]byte, 0, size+len(key)+64), '{')
	} else {
		o.text = append(o.text, ',')
	}
	o.text = append(o.text, Quote(key)...)
	o.text = append(o.text, ':')
}

// JSON returns the object. No member may be added afterwards.
func (o *Object) JSON() json.RawMessage {
	if o.text == nil {
		return json.RawMessage("{}")
	}
	return append(o.text, '}')
}

// Array returns a JSON array of values.
func Array(values ...[]byte) json.RawMessage {
	size := 2 + len(values)
	for _, v := range values {
		size += len(v)
	}
	out := append(make([]byte, 0, size), '[')
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}
