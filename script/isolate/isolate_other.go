//go:build !linux

package isolate

import (
	"fmt"
	"runtime"

	"github.com/vmcp-dev/vmcp/script"
)

// ServeIfWorker does nothing: there are no workers here.
func ServeIfWorker() {}

type process struct{ script.Channel }

func (*process) bound(int64) error { return nil }

type starter struct{}

// Available says why there can be no workers here; nil: there can.
func Available() error {
	return fmt.Errorf("scripts are isolated on Linux only: what bounds a worker process is its kernel's; this is %s", runtime.GOOS)
}

func (*starter) start(func()) (*process, error) { return nil, Available() }

func (*starter) close() {}
