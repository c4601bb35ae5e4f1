package runs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/runs/memory"
	"github.com/vmcp-dev/vmcp/runs/runstest"
	"github.com/vmcp-dev/vmcp/script"
)

func TestStore(t *testing.T) {
	runstest.Test(t, func(*testing.T) runstest.Open {
		stores := map[string]*memory.Store{}
		return func(_ *testing.T, o runs.Options) runs.Store {
			name := fmt.Sprint(o)
			if stores[name] == nil {
				stores[name] = memory.New(o, nil)
			}
			return stores[name]
		}
	})
}

// TestRunsThatNobodyExecutesWeigh: runs that wait or have ended are counted as memory of scripts, up to a bound, until they are
// removed.
func TestRunsThatNobodyExecutesWeigh(t *testing.T) {
	pool := script.NewPool(512<<20, 1, nil) // 64 MB of it for runs that wait
	s := memory.New(runs.Options{MaxBytes: 32 << 20}, pool)
	result, _ := json.Marshal(strings.Repeat("x", 8<<20))
	weighs := func(when string, least, most int64) {
		t.Helper()
		if n := pool.Usage().Charged; n < least<<20 || n > most<<20 {
			t.Errorf("%s the runs weigh %d bytes, want %d to %d MB", when, n, least, most)
		}
	}
	var refused error
	n := int64(0)
	for ; n < 20; n++ {
		l, err := s.Create(t.Context(), runs.Run{ID: fmt.Sprint(n), Tool: "t"}, "owner", nil)
		if err != nil {
			refused = err
			break
		}
		if err := l.Record(script.Entry{Key: "0", Kind: "call", Result: result}); err != nil {
			t.Fatal(err)
		}
		weighs("while one is executed", 8*n, 8*n+1)
		if err := l.End(t.Context(), runs.Outcome{State: runs.Waiting}); err != nil {
			t.Fatal(err)
		}
	}
	if n < 7 || n > 9 || !errors.Is(refused, runs.ErrFull) || !strings.Contains(refused.Error(), "limits.totalMemory") {
		t.Fatalf("after %d runs: %v", n, refused)
	}
	weighs("when they wait", 8*n, 8*n+1)
	if _, err := s.Acquire(t.Context(), "0", "owner"); err != nil {
		t.Fatal(err)
	}
	weighs("when one of them is executed again", 8*n-8, 8*n-7)
	for i := range n {
		if err := s.Cancel(t.Context(), fmt.Sprint(i), ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Prune(t.Context(), runs.Old{Before: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	weighs("when they are removed", 0, 0)
}
