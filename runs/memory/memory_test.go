package memory_test

import (
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/memory"
	"github.com/vmcp-dev/vmcp/runs/runstest"
)

func TestStore(t *testing.T) {
	runstest.Test(t, func(*testing.T) runstest.Open {
		stores := map[string]*memory.Store{}
		return func(_ *testing.T, o runs.Options) runs.Store {
			name := fmt.Sprint(o)
			if stores[name] == nil {
				stores[name] = memory.New(o)
			}
			return stores[name]
		}
	})
}
