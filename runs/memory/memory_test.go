package memory_test

import (
	"testing"

	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/memory"
	"github.com/vmcp-dev/vmcp/runs/runstest"
)

func TestStore(t *testing.T) {
	runstest.Test(t, func(*testing.T) runstest.Open {
		stores := map[runs.Options]*memory.Store{}
		return func(_ *testing.T, o runs.Options) runs.Store {
			if stores[o] == nil {
				stores[o] = memory.New(o)
			}
			return stores[o]
		}
	})
}
