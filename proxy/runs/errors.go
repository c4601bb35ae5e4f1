package runs

import (
	"errors"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/observe"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// ErrState refuses a requestState. It does not say what is wrong: a client that did not receive the state must not
// learn that.
var ErrState = wire.Errorf(wire.InvalidParams, "requestState is not valid for this request: it was changed, used before, has expired, or belongs to other arguments or to another principal")

// errTakenOver is the error for a request whose run continues in another process.
var errTakenOver = errors.New("another process has acquired the run")

// TakenOver reports whether a part has ended because another process has acquired the run.
func TakenOver(err error) bool { return errors.Is(err, errTakenOver) }

// Stopped is the error for a request whose process is shutting down and that cannot repeat itself: for a run that is
// resumed afterwards (outlives), or for one that ends with the process.
func Stopped(id string, outlives bool) error {
	if !outlives {
		return refusal("stopping", "", "the server is shutting down, and the run ended with it")
	}
	return refusal("stopping", id, "the server is shutting down; the run will be resumed: %s", id)
}

// StoreAway is the error for a request that needs the store while that does not answer.
func StoreAway(text string) error { return refusal("store", "", "%s", text) }

// refusal is a JSON-RPC error with a reason in its data.
func refusal(reason, run, format string, args ...any) error {
	err := wire.Errorf(wire.InternalError, format, args...)
	data := new(jsonscan.Object).Text("reason", reason)
	if run != "" {
		data.Text("run", run)
	}
	err.Data = data.JSON()
	return err
}

// failed is the outcome of a part that failed by an error of its store.
func failed(id string, err error, kept bool) Outcome {
	var limit *durable.LimitError
	run := ""
	if kept {
		run = id
	}
	switch {
	case errors.As(err, &limit):
		return Outcome{State: durable.Failed, Error: limit.Error(), Kept: kept, How: observe.Limit}
	case errors.Is(err, durable.ErrTaken), errors.Is(err, durable.ErrExists), errors.Is(err, durable.ErrCancelled):
		return Outcome{State: durable.Running, Err: errTakenOver, Kept: true}
	}
	return Outcome{State: durable.Running, Err: storeError(run, err), Kept: kept}
}

// storeError converts an error of the store to one for a request.
func storeError(run string, err error) error {
	var limit *durable.LimitError
	var refused *wire.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return err
	case errors.Is(err, durable.ErrOtherRequest):
		return wire.Errorf(wire.InvalidParams, "the idempotency key belongs to another request")
	case errors.Is(err, durable.ErrUnknown), errors.Is(err, durable.ErrSealed):
		return ErrState
	case errors.Is(err, durable.ErrDamaged):
		return refusal("damaged", run, "the run's journal is damaged: %s", run)
	case errors.As(err, &limit):
		return wire.Errorf(wire.InternalError, "%v", limit)
	case errors.Is(err, durable.ErrTaken):
		return refusal("taken over", run, "another process has acquired the run; send the request again")
	}
	if errors.Is(err, durable.ErrFull) {
		return refusal("store", run, "the store of runs is full; send the request again when its disk has room")
	}
	return refusal("store", run, "the store of runs does not answer; send the request again later")
}
