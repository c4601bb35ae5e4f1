package adapt

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// MaxRounds is how often a stateless backend may ask before it has to answer, when its questions
// are carried to who asks in another way.
const MaxRounds = 10

// AskedFor returns a result that asks for input, or nil. One that streams is held, up to most bytes, when
// its beginning looks like it: questions may be as large as the pictures in them.
func AskedFor(resp *backends.Response, most int64) (result json.RawMessage, err error) {
	result = resp.Result
	if head := resp.Head(); jsonscan.Contains(head, "input_required", "q") || jsonscan.Contains(head, `"inputRequests"`, "R") {
		if err := resp.Hold(most); err != nil {
			return nil, err
		}
		result = resp.Result
	}
	if jsonscan.Contains(result, "input_required", "q") && jsonscan.GetString(result, "resultType") == "input_required" {
		return result, nil
	}
	return nil, nil
}

// Answering is req with the answers to what was asked, and the state that came with that.
func Answering(req *backends.Request, answers, state json.RawMessage) *backends.Request {
	next := *req
	next.Params = jsonscan.Set(next.Params, "inputResponses", answers)
	if len(state) > 0 {
		next.Params = jsonscan.Set(next.Params, "requestState", state)
	}
	return &next
}

// CannotBeAsked is the error for a question that the client did not declare to answer.
func CannotBeAsked(method string) error {
	return wire.Errorf(wire.MethodNotFound, "the client did not declare the capability for %s", method)
}
