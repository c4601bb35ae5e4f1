//go:build !linux

package isolate

import (
	"fmt"
	"runtime"

	"github.com/vmcp-dev/vmcp/script"
)

// ServeIfWorker does nothing: this system has no workers.
func ServeIfWorker() {}

type process struct{ script.Channel }

func (*process) bound(int64) error { return nil }

type starter struct{}

// Available returns why there can be no workers on this system; nil: there can.
func Available() error {
	return fmt.Errorf("scripts can be isolated on Linux only, whose kernel bounds the worker processes; this is %s", runtime.GOOS)
}

func (*starter) start(func()) (*process, error) { return nil, Available() }

func (*starter) close() {}
