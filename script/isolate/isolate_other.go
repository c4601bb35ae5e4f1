//go:build !linux

package isolate

import (
	"errors"

	"github.com/vmcp-dev/vmcp/script"
)

// ServeIfWorker does nothing: there are no workers here.
func ServeIfWorker() {}

type process struct{ script.Channel }

func (*process) bound(int64) error { return nil }

type starter struct{}

func newStarter() (starter, error) {
	return starter{}, errors.New("scripts can be isolated on Linux only: their worker processes are bounded by what its kernel has")
}

func (starter) start(func()) (*process, error) { return nil, errors.New("there are no workers here") }

func (starter) close() {}
