package observe

import (
	"errors"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/script"
)

// ForScript converts the error of a failed call to the one that a script gets.
func ForScript(err error) error {
	var known *builtins.ToolError
	var rpc *wire.Error
	var be *backends.Error
	var suspended *script.Suspended
	var journal *script.JournalError
	switch {
	case errors.As(err, &suspended), errors.As(err, &journal), errors.As(err, &known):
		return err
	case errors.As(err, &be):
		return &builtins.ToolError{Kind: kindForScripts(be.Kind), Msg: be.Error()}
	case errors.As(err, &rpc) && rpc.Code == wire.InvalidParams:
		return &builtins.ToolError{Kind: builtins.InvalidInput, Msg: rpc.Message}
	case errors.As(err, &rpc):
		return &builtins.ToolError{Kind: builtins.Tool, Msg: rpc.Message}
	}
	return err
}

func kindForScripts(k backends.Kind) string {
	switch k {
	case backends.Timeout:
		return builtins.Timeout
	case backends.Protocol, backends.TooLarge:
		return builtins.InvalidOutput
	case backends.Denied:
		return builtins.Denied
	case backends.Interrupted, backends.Cancelled:
		return builtins.Unknown
	}
	return builtins.Unavailable
}

// IsBusy reports whether a request was refused for want of room.
func IsBusy(err error) bool {
	var rpc *wire.Error
	return errors.As(err, &rpc) && rpc.Code == wire.Busy
}
