package edge

import (
	"context"
	"errors"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// ErrCancelled answers a request that was cancelled: by its client, or by the end of the
// client's session.
var ErrCancelled = wire.Errorf(wire.RequestCancelled, "request cancelled")

// ClientError is a backend's failure as the client sees it.
func ClientError(err error) error {
	var rpc *wire.Error
	if errors.As(err, &rpc) {
		return rpc
	}
	var be *backends.Error
	if errors.As(err, &be) {
		e := wire.Errorf(wire.InternalError, "%v", be)
		e.Data = new(jsonscan.Object).Text("backend", be.Backend).Text("kind", be.Kind.String()).JSON()
		return e
	}
	if errors.Is(err, context.Canceled) {
		return ErrCancelled
	}
	return err
}
