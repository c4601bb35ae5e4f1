package runs

import (
	"errors"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
	store "github.com/vmcp-dev/vmcp/runs"
)

// ErrState refuses a requestState, whatever is wrong with it: which it is, is not the
// business of a sender who has not proven to be the one that it was given to.
var ErrState = wire.Errorf(wire.InvalidParams, "requestState is not valid for this request: it was changed, used before, has expired, or belongs to other arguments or to somebody else")

// errTakenOver is for a request whose run goes on elsewhere.
var errTakenOver = errors.New("another process has taken the run over")

// TakenOver reports whether a part has ended because the run goes on elsewhere.
func TakenOver(err error) bool { return errors.Is(err, errTakenOver) }

// Stopped is what a request gets that cannot come back by itself, for a run that goes on when this
// process has ended, or for one that ends with the process.
func Stopped(id string, outlives bool) error {
	if !outlives {
		return refusal("stopping", "", "the server is about to end, and this run with it")
	}
	return refusal("stopping", id, "the server is about to end; the run goes on: %s", id)
}

// StoreAway is what a request gets that needs the store while that does not answer.
func StoreAway(text string) error { return refusal("store", "", "%s", text) }

// refusal is an error of JSON-RPC that says in its data why.
func refusal(reason, run, format string, args ...any) error {
	err := wire.Errorf(wire.InternalError, format, args...)
	data := new(jsonscan.Object).Text("reason", reason)
	if run != "" {
		data.Text("run", run)
	}
	err.Data = data.JSON()
	return err
}

// failed is how a part ends with an error of its store.
func failed(id string, err error, kept bool) Outcome {
	var limit *store.LimitError
	run := ""
	if kept {
		run = id
	}
	switch {
	case errors.As(err, &limit):
		return Outcome{State: store.Failed, Error: limit.Error(), Kept: kept, How: outcome.Limit}
	case errors.Is(err, store.ErrTaken), errors.Is(err, store.ErrExists), errors.Is(err, store.ErrCancelled):
		return Outcome{State: store.Running, Err: errTakenOver, Kept: true}
	}
	return Outcome{State: store.Running, Err: storeError(run, err), Kept: kept}
}

// storeError is what a request gets for an error of the store.
func storeError(run string, err error) error {
	var limit *store.LimitError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrOtherRequest):
		return wire.Errorf(wire.InvalidParams, "the idempotency key belongs to another request")
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrSealed):
		return ErrState
	case errors.Is(err, store.ErrDamaged):
		return refusal("damaged", run, "the run's journal is damaged: %s", run)
	case errors.Is(err, store.ErrFull):
		return wire.Errorf(wire.InternalError, "%v; try again later", err)
	case errors.As(err, &limit):
		return wire.Errorf(wire.InternalError, "%v", limit)
	case errors.Is(err, store.ErrTaken):
		return refusal("taken over", run, "another process has taken the run over; send the request again")
	}
	return refusal("store", run, "the store of runs does not answer; send the request again later")
}
