package runs

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// MaxRounds is how many input_required results in a row a stateless backend may return for one call when its questions
// are converted for a client with a session, or for a script.
const MaxRounds = 10

// AskedFor returns the result if it is input_required, else nil. A streamed result is read into memory, up to most
// bytes, if its beginning looks like one: questions may contain large images.
func AskedFor(resp *backends.Response, most int64) (result json.RawMessage, err error) {
	result = resp.Result
	if head := resp.Head(); jsonscan.Contains(head, "input_required", "q") || jsonscan.Contains(head, `"inputRequests"`, "R") {
		if err := resp.ReadAll(most); err != nil {
			return nil, err
		}
		result = resp.Result
	}
	if jsonscan.Contains(result, "input_required", "q") && jsonscan.GetString(result, "resultType") == "input_required" {
		return result, nil
	}
	return nil, nil
}

// Answering is req with the client's inputResponses and the requestState of the result that asked.
func Answering(req *backends.Request, answers, state json.RawMessage) *backends.Request {
	next := *req
	next.Params = jsonscan.Set(next.Params, "inputResponses", answers)
	if len(state) > 0 {
		next.Params = jsonscan.Set(next.Params, "requestState", state)
	}
	return &next
}

// CannotBeAsked is the error for a request to a client that did not declare the capability for it.
func CannotBeAsked(method string) error {
	return wire.Errorf(wire.MethodNotFound, "the client did not declare the capability for %s", method)
}
