// Package raw is an MCP client and server that change no byte of params and results: a
// test defines the bytes of a backend's response and gets the bytes that a client received.
// It shares no code with the proxy, so that both cannot have the same mistake.
package raw

import (
	"encoding/json"
	"fmt"
)

// Modern is the revision without sessions and initialize.
const Modern = "2026-07-28"

// Message is one JSON-RPC message; every part keeps its bytes.
type Message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Error is a JSON-RPC error.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%d: %s %s", e.Code, e.Message, e.Data) }

// answer is the text of a response. It does not use encoding/json, which would compact a
// RawMessage.
func answer(id json.RawMessage, result string, err *Error) []byte {
	if err != nil {
		text, _ := json.Marshal(err)
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, text)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// call is the text of a request, or of a notification when id is empty.
func call(id, method, params string) []byte {
	text := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q`, method)
	if id != "" {
		text += `,"id":` + id
	}
	if params != "" {
		text += `,"params":` + params
	}
	return []byte(text + "}")
}
