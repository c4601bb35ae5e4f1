//go:build suites

package attacks

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/test/rig"
)

// totalMemory is the memory limit of all scripts in the tests of this file; mostTogether bounds the peak memory of the
// process then: 1.25 times that, plus 64 MiB.
const (
	totalMemory  = "totalMemory: 512MB"
	mostTogether = 512<<20/4*5 + 64<<20
)

// within fails when the process has had more than most.
func (s *served) within(t *testing.T, most int64) {
	t.Helper()
	peak := s.peak(t)
	t.Logf("%d MB", peak>>20)
	if peak > most {
		t.Errorf("the process has had %d MB, at most %d are right", peak>>20, most>>20)
	}
}

// calls calls a tool with n concurrent clients, and waits for all; check, if it is not nil, checks each result.
func (s *served) calls(t *testing.T, n int, params string, check func(answer string, err error)) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		c := s.connect(t)
		all.Go(func() {
			res, err := c.Call(t.Context(), "tools/call", params)
			if check != nil {
				check(string(res), err)
			}
		})
	}
	all.Wait()
}

// TestHungryAtOnce: eight concurrent runs that use all memory that they may, repeatedly, stay together within the limit of all scripts.
func TestHungryAtOnce(t *testing.T) {
	testmode.NeedThorough(t)
	s := serve(t, "time: 5m, "+totalMemory)
	for range 3 {
		s.calls(t, 8, `{"name":"hungry","arguments":{}}`, nil)
	}
	s.within(t, mostTogether)
}

// TestClientsThatGiveUp: the memory of runs whose clients have disconnected is released.
func TestClientsThatGiveUp(t *testing.T) {
	testmode.NeedThorough(t)
	s := serve(t, "time: 5m")
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		c := s.connect(t)
		go func() {
			_, err := c.Call(ctx, "tools/call", `{"name":"large","arguments":{}}`)
			ended <- err
		}()
		s.backend.await(t, 1)
		cancel()
		<-ended
	}
	s.within(t, mostMemory)
}

// TestGarbageOfRunsThatAreCalled: the garbage of runs that a script calls does not add up while their caller runs.
func TestGarbageOfRunsThatAreCalled(t *testing.T) {
	testmode.NeedThorough(t)
	s := serve(t, "time: 5m, steps: 100000000")
	s.calls(t, 1, `{"name":"fills","arguments":{}}`, func(answer string, err error) {
		if err != nil || strings.Contains(answer, `"isError":true`) {
			t.Errorf("%.300s %v", answer, err)
		}
	})
	s.within(t, mostMemory)
}

// TestRunsSuspendedAtTheirLargest: sleeping runs have only their journals in memory.
func TestRunsSuspendedAtTheirLargest(t *testing.T) {
	testmode.NeedThorough(t)
	s := serve(t, "time: 5m}\nruns: {hold: 100ms")
	ctx, cancel := context.WithTimeout(t.Context(), waitTime)
	defer cancel()
	var all sync.WaitGroup
	for i := range 6 {
		c := s.connect(t)
		all.Go(func() { _, _ = c.Call(ctx, "tools/call", `{"name":"large","arguments":{"sleep":"1h"}}`) })
		if err := rig.Poll(ctx, "a run to sleep", func() (bool, error) { return s.shows(t, fmt.Sprintf(`vmcp_runs{state="sleeping"} %d`, i+1)), nil }); err != nil {
			t.Fatal(err)
		}
	}
	s.calls(t, 1, `{"name":"hungry","arguments":{}}`, nil)
	cancel()
	all.Wait()
	s.within(t, mostMemory)
}

// TestLargeResultsAtOnce: results of 10 MB are relayed to clients while they arrive, and those that scripts read are charged:
// runs that have ended use an eighth of totalMemory at most, and none is refused.
func TestLargeResultsAtOnce(t *testing.T) {
	testmode.NeedThorough(t)
	for _, tt := range []struct {
		tool string
		size int
		most int64
	}{
		{"big", 10_000_000, 200 << 20},
		{"reads", 7_900_000, mostTogether},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			s := serve(t, "time: 5m, "+totalMemory)
			for range 3 {
				s.calls(t, 20, fmt.Sprintf(`{"name":%q,"arguments":{"n":%d}}`, tt.tool, tt.size), func(answer string, err error) {
					if err != nil || len(answer) < tt.size && !strings.Contains(answer, strconv.Itoa(tt.size)) {
						t.Errorf("%.300s %v", answer, err)
					}
				})
			}
			s.within(t, tt.most)
		})
	}
}

// shows reports whether a line is in /metrics.
func (s *served) shows(t *testing.T, line string) bool {
	t.Helper()
	res, err := http.Get(strings.TrimSuffix(s.url, "/mcp") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "\n"+line+"\n")
}
