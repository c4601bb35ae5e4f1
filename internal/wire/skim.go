package wire

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// Skim splits a frame like Parse, but by structure only: values are not checked for valid
// JSON. It is for responses of a peer, whose results are forwarded unchanged. A null error
// beside a result, which some servers send, counts as absent.
func Skim(frame []byte) (Message, error) {
	var m Message
	var version, hasID, twice bool
	take := func(to *json.RawMessage, v []byte) {
		twice = twice || *to != nil
		*to = v
	}
	err := jsonscan.SkimObject(frame, func(key, v []byte) {
		switch envelopeField(key) {
		case 0:
			version = string(v) == `"2.0"`
		case 1:
			if hasID = true; string(v) != "null" {
				take(&m.ID, v)
			}
		case 2:
			m.Method = jsonscan.Text(v)
		case 3:
			take(&m.Params, v)
		case 4:
			take(&m.Result, v)
		case 5:
			if string(v) != "null" {
				take(&m.Error, v)
			}
		}
	})
	switch {
	case err != nil:
		return m, &Error{Code: ParseError, Message: "parse error: " + err.Error()}
	case twice:
		return m, Invalid("a member appears twice")
	}
	return m, m.check(version, hasID)
}

// SkimResult returns the position of the result in head, the first part of a response
// frame. ok is false when no result begins in it.
func SkimResult(head []byte) (start int, ok bool) { return jsonscan.FindOpen(head, "result") }
