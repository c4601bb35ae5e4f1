// Package wire implements the wire format of MCP: JSON-RPC frames kept as raw bytes,
// server-sent events, protocol revisions, methods, error codes and the HTTP header
// rules.
//
// A frame is split into its members, not decoded: the proxy reads only the values that
// it needs. Nothing here starts a goroutine.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Message is one JSON-RPC 2.0 frame. The members are slices of the parsed frame, and
// valid as long as it is. A request has a Method and an ID, a notification a Method
// only, a response an ID and either Result or Error.
type Message struct {
	ID     json.RawMessage // a string or number; nil when absent
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

// IsRequest reports whether m is a request.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether m is a request without an id.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether m is a response.
func (m *Message) IsResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// Clone returns a copy of m whose members need no more memory than their sizes. A message that is kept needs it: its
// frame may have other members, and be in a buffer that is larger.
func (m *Message) Clone() Message {
	block := make([]byte, 0, len(m.ID)+len(m.Params)+len(m.Result)+len(m.Error))
	clone := func(member json.RawMessage) json.RawMessage {
		if member == nil {
			return nil
		}
		begin := len(block)
		block = append(block, member...)
		return json.RawMessage(block[begin:len(block):len(block)])
	}
	return Message{ID: clone(m.ID), Method: m.Method, Params: clone(m.Params), Result: clone(m.Result), Error: clone(m.Error)}
}

// Parse splits one frame into its members. It checks that the whole frame is JSON of bounded depth in
// valid UTF-8; the error is an *Error with code ParseError or InvalidRequest. For a frame that is
// JSON but not a valid message, the returned message has the id if one was found.
func Parse(frame []byte) (Message, error) {
	var m Message
	if err := jsonscan.Check(frame); err != nil {
		return m, &Error{Code: ParseError, Message: "parse error: " + err.Error()}
	}
	return m, m.fill(frame)
}

// fill sets the members from a frame that is valid JSON.
func (m *Message) fill(frame []byte) error {
	if kind := jsonscan.Kind(bytes.TrimLeft(frame, " \n\r\t")); kind != "an object" {
		return Invalid("want a JSON-RPC object, have %s", kind)
	}
	var seen [6]bool
	version := false
	var problem error
	jsonscan.Each(frame, func(key, value []byte) bool {
		field := envelopeField(key)
		if field < 0 {
			return true
		}
		if seen[field] {
			problem = Invalid("member %q appears twice", key)
			return false
		}
		seen[field] = true
		switch field {
		case 0:
			version = string(value) == `"2.0"`
		case 1:
			if string(value) != "null" {
				m.ID = value
			}
		case 2:
			if json.Unmarshal(value, &m.Method) != nil {
				problem = Invalid("method: want a string, have %s", jsonscan.Kind(value))
			}
		case 3:
			m.Params = value
		case 4:
			m.Result = value
		case 5:
			m.Error = value
		}
		return true
	})
	if problem != nil {
		return problem
	}
	return m.check(version, seen[1])
}

func envelopeField(key []byte) int {
	switch string(key) {
	case "jsonrpc":
		return 0
	case "id":
		return 1
	case "method":
		return 2
	case "params":
		return 3
	case "result":
		return 4
	case "error":
		return 5
	}
	return -1
}

func (m *Message) check(version, hasID bool) error {
	switch {
	case !version:
		return Invalid(`jsonrpc: want "2.0"`)
	case m.ID != nil && m.ID[0] != '"' && m.ID[0] != '-' && (m.ID[0] < '0' || m.ID[0] > '9'):
		m.ID = nil
		return Invalid("id: want a string or a number")
	case m.Method != "" && (m.Result != nil || m.Error != nil):
		return Invalid("a message has a method or a result, not both")
	case m.Method != "" && hasID && m.ID == nil:
		return Invalid("id: want a string or a number, have null")
	case m.Method == "" && m.Result == nil && m.Error == nil:
		return Invalid("no method, no result, no error")
	case m.Result != nil && m.Error != nil:
		return Invalid("a response has a result or an error, not both")
	case m.Method != "" && m.Params != nil && m.Params[0] != '{' && m.Params[0] != '[':
		return Invalid("params: want an object, have %s", jsonscan.Kind(m.Params))
	}
	return nil
}

// Append appends m as one frame, without a final line break.
func (m *Message) Append(dst []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if m.ID != nil {
		dst = append(append(dst, `,"id":`...), m.ID...)
	}
	if m.Method != "" {
		dst = append(append(dst, `,"method":`...), jsonscan.Quote(m.Method)...)
	}
	if m.Params != nil {
		dst = append(append(dst, `,"params":`...), m.Params...)
	}
	if m.Result != nil {
		dst = append(append(dst, `,"result":`...), m.Result...)
	}
	if m.Error != nil {
		if m.ID == nil {
			dst = append(dst, `,"id":null`...)
		}
		dst = append(append(dst, `,"error":`...), m.Error...)
	}
	return append(dst, '}')
}

// Request builds a request frame.
func Request(id json.RawMessage, method string, params json.RawMessage) []byte {
	return (&Message{ID: id, Method: method, Params: params}).Append(nil)
}

// Notification builds a notification frame.
func Notification(method string, params json.RawMessage) []byte {
	return (&Message{Method: method, Params: params}).Append(nil)
}

// Result builds a response frame.
func Result(id, result json.RawMessage) []byte {
	return (&Message{ID: id, Result: result}).Append(make([]byte, 0, len(result)+len(id)+32))
}

// Failure builds an error response frame; a nil id is written as null.
func Failure(id json.RawMessage, err error) []byte {
	return (&Message{ID: id, Error: AsError(err).JSON()}).Append(nil)
}

// Line returns frame without line breaks, for a newline-delimited stream. A valid frame
// has them only between tokens.
func Line(frame []byte) []byte {
	if bytes.IndexByte(frame, '\n') < 0 && bytes.IndexByte(frame, '\r') < 0 {
		return frame
	}
	out := bytes.ReplaceAll(frame, []byte{'\n'}, []byte{' '})
	return bytes.ReplaceAll(out, []byte{'\r'}, []byte{' '})
}

// Error is a JSON-RPC error object. Raw, when set, is the object as a peer sent it, and is
// forwarded unchanged.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
	Raw     json.RawMessage `json:"-"`
}

func (e *Error) Error() string { return e.Message }

// JSON returns the error object's bytes.
func (e *Error) JSON() json.RawMessage {
	if e.Raw != nil {
		return e.Raw
	}
	b, _ := json.Marshal(e)
	return b
}

// ParseErrorObject reads a peer's error object and keeps its bytes.
func ParseErrorObject(raw json.RawMessage) *Error {
	e := &Error{}
	if err := json.Unmarshal(raw, e); err != nil {
		return &Error{Code: InternalError, Message: strings.TrimSuffix("peer sent an error that is not a JSON-RPC error object: "+jsonscan.Text(raw), ": "), Data: bytes.Clone(raw)}
	}
	e.Raw = append(json.RawMessage(nil), raw...)
	return e
}

// AsError returns err as a JSON-RPC error; any other error becomes an internal error with
// its text.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: InternalError, Message: err.Error()}
}

// Errorf builds an Error.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid builds an InvalidRequest error.
func Invalid(format string, args ...any) *Error {
	return Errorf(InvalidRequest, "invalid request: "+format, args...)
}

// OrEmpty returns an optional object, {} if it is empty or null.
func OrEmpty(object json.RawMessage) json.RawMessage {
	if len(object) == 0 || string(object) == "null" {
		return json.RawMessage("{}")
	}
	return object
}
