package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

// TestWaitingRunsHoldNoSlot: forty runs that wait a second for a tool take about a
// second, whatever the number of slots.
func TestWaitingRunsHoldNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crowd
		h := &scripttest.Host{Tools: map[string]scripttest.Tool{"crowd": c.call}}
		pool := script.NewPool(1<<30, 1, nil)
		p := scripttest.Compile(t, `def run(params): return parallel([lambda: call_tool("crowd"), lambda: sleep("1s")])`)
		start := time.Now()
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				if _, err := p.Run(t.Context(), script.RunOptions{Host: h, Pool: pool}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(start); took > 1100*time.Millisecond || c.most != 40 {
			t.Errorf("took %v, %d at once", took, c.most)
		}
	})
}

// TestComputingRunsShareTheSlots: with one slot and two runs that compute without end, a short one still completes,
// and so does one whose context ends.
func TestComputingRunsShareTheSlots(t *testing.T) {
	pool := script.NewPool(1<<30, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	forever := scripttest.Compile(t, `
def run(params):
    while True: pass
`)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			_, err := forever.Run(ctx, script.RunOptions{Pool: pool, Limits: script.Limits{Steps: math.MaxInt64 / 4, Memory: math.MaxInt64 / 4}})
			var cancelled *script.Cancelled
			if !errors.As(err, &cancelled) {
				t.Error(err)
			}
		})
	}
	for range 10 {
		if _, err := scripttest.Compile(t, `def run(params): return [i for i in range(10000)][0]`).Run(ctx, script.RunOptions{Pool: pool}); err != nil {
			t.Error(err)
		}
	}
	cancel()
	all.Wait()
}

// keeps is a program that has an effect, or none, then keeps params["mb"] megabytes and
// calls a tool.
const keeps = `
def run(params):
    if params.get("effect"):
        call_tool("done")
    keep = ["x" * 1000000 for i in range(params["mb"])]
    call_tool("then")
    return len(keep)
`

// TestWhoGrowsFirstWhenThereIsNoRoom: of runs that all want more memory than there is, the oldest continues; the
// youngest that has had no effect is refused as busy, one that has had some ends with the limit. None waits forever.
func TestWhoGrowsFirstWhenThereIsNoRoom(t *testing.T) {
	for _, tt := range []struct {
		effects []bool // of the runs, oldest first
		want    []string
	}{
		{[]bool{true, true}, []string{"ok", "totalMemory"}},
		{[]bool{false, false}, []string{"ok", "busy"}},
	} {
		t.Run(fmt.Sprint(tt.effects), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := script.NewPool(64e6, 4, nil)
				h := &scripttest.Host{}
				start := make(chan struct{})
				wait := func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
					<-start
					return scripttest.Structured("{}"), nil
				}
				long := func(context.Context, json.RawMessage) (json.RawMessage, error) {
					time.Sleep(2 * time.Minute) // longer than a run waits for memory
					return scripttest.Structured("{}"), nil
				}
				h.Tools = map[string]scripttest.Tool{"done": wait, "then": long}
				p := scripttest.Compile(t, keeps)
				got := make([]string, len(tt.effects))
				var all sync.WaitGroup
				for i, effect := range tt.effects {
					args := json.RawMessage(fmt.Sprintf(`{"mb": 40, "effect": %v}`, effect))
					all.Go(func() {
						_, err := p.Run(t.Context(), script.RunOptions{Host: h, Pool: pool, Args: args})
						got[i] = ending(err)
					})
					if effect {
						synctest.Wait() // it is in its effect, so the next one is younger
					}
				}
				close(start)
				all.Wait()
				count := map[string]int{}
				for i := range got {
					count[got[i]]++
					count[tt.want[i]]--
				}
				for what, n := range count {
					if n != 0 {
						t.Errorf("ended with %v, want %v (%s)", got, tt.want, what)
						break
					}
				}
			})
		})
	}
}

func ending(err error) string {
	var busy *script.Busy
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &busy):
		return "busy"
	}
	return limitOf(err)
}

// TestAGrowingRunWaitsForOneThatEnds: a run that finds no memory continues when another one, which waited for an
// effect, has ended.
func TestAGrowingRunWaitsForOneThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := script.NewPool(64e6, 1, nil)
		stay := make(chan struct{})
		h := &scripttest.Host{Tools: map[string]scripttest.Tool{"then": func(context.Context, json.RawMessage) (json.RawMessage, error) {
			<-stay
			return scripttest.Structured("{}"), nil
		}}}
		p := scripttest.Compile(t, keeps)
		results := make(chan error, 2)
		run := func() {
			_, err := p.Run(t.Context(), script.RunOptions{Host: h, Pool: pool, Args: json.RawMessage(`{"mb": 40}`)})
			results <- err
		}
		go run()
		synctest.Wait()
		go run()
		synctest.Wait()
		close(stay)
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		// Where nobody ends, waiting does.
		stay = make(chan struct{})
		go run()
		synctest.Wait()
		start := time.Now()
		go run()
		if got := ending(<-results); got != "busy" || time.Since(start) > time.Minute {
			t.Errorf("ended with %s after %v", got, time.Since(start))
		}
		close(stay)
		<-results
		if _, err := p.Run(t.Context(), script.RunOptions{Host: h, Pool: pool, Args: json.RawMessage(`{"mb": 100}`)}); ending(err) != "totalMemory" {
			t.Errorf("alone, with more than there is: %v", err)
		}
	})
}

// TestRunsWaitForGarbage: a run that grows while garbage is collected waits for that, without the slot, and asks once
// more then; it is not taken for one that waits for memory, and may end meanwhile.
func TestRunsWaitForGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var collecting chan struct{}
		pool := script.NewPool(100e6, 1, func(n int64) <-chan struct{} {
			mu.Lock()
			defer mu.Unlock()
			if n < 20e6 {
				return nil
			}
			return collecting
		})
		set := func(c chan struct{}) {
			mu.Lock()
			defer mu.Unlock()
			if collecting != nil {
				close(collecting)
			}
			collecting = c
		}
		run := func(ctx context.Context, mb int) chan error {
			h := &scripttest.Host{Tools: map[string]scripttest.Tool{"then": scripttest.Returns("{}")}}
			ended := make(chan error, 1)
			p := scripttest.Compile(t, keeps)
			go func() {
				_, err := p.Run(ctx, script.RunOptions{Host: h, Pool: pool, Args: json.RawMessage(fmt.Sprintf(`{"mb": %d}`, mb))})
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		set(make(chan struct{}))
		large := run(t.Context(), 50)
		ctx, cancel := context.WithCancel(t.Context())
		given := run(ctx, 50)
		set(make(chan struct{})) // there was more by then
		synctest.Wait()
		cancel()
		var cancelled *script.Cancelled
		if err := <-given; !errors.As(err, &cancelled) {
			t.Errorf("the run whose client has gone: %v", err)
		}
		synctest.Wait()
		select {
		case err := <-large:
			t.Fatalf("a run did not wait: %v", err)
		default:
		}
		if use := pool.Usage(); use.Free != 1 {
			t.Errorf("%d slots are free", use.Free)
		}
		set(nil)
		if err := <-large; err != nil {
			t.Error(err)
		}
	})
}

// TestThePoolIsEmptyInTheEnd: however runs end, what they were granted is returned.
func TestThePoolIsEmptyInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var now, most int64
		pool := script.NewPool(100e6, 2, func(n int64) <-chan struct{} {
			mu.Lock()
			defer mu.Unlock()
			now, most = n, max(most, n)
			return nil
		})
		h := &scripttest.Host{}
		h.Tools = map[string]scripttest.Tool{"done": scripttest.Returns("{}"), "then": scripttest.Hangs}
		h.Tools["inner"] = runs(t, h, keeps, script.Limits{})
		p := scripttest.Compile(t, `
def run(params):
    return parallel(lambda i: call_tool("inner", {"mb": params["mb"], "effect": i % 2 == 0}), range(5))
`)
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Second)
				defer cancel()
				_, err := p.Run(ctx, script.RunOptions{Host: h, Pool: pool, Args: json.RawMessage(fmt.Sprintf(`{"mb": %d}`, i))})
				if err == nil {
					t.Error("a run whose tool never answers ended well")
				}
			})
		}
		all.Wait()
		if now != 0 || most > 100e6 || most < 50e6 {
			t.Errorf("%d bytes are left, %d were the most", now, most)
		}
	})
}

// TestWhatCalledRunsLeaveIsNoted: what a called run was charged is noted as gone when it ends, though its caller
// keeps it, and as there again when the next one is charged.
func TestWhatCalledRunsLeaveIsNoted(t *testing.T) {
	var now, most int64
	var falls []int64 // how far it fell each time, in MB
	pool := script.NewPool(100e6, 1, func(n int64) <-chan struct{} {
		if n < now-5e6 {
			falls = append(falls, (now-n)/1e6)
		}
		now, most = n, max(most, n)
		return nil
	})
	h := &scripttest.Host{}
	h.Tools = map[string]scripttest.Tool{"then": scripttest.Returns("{}")}
	h.Tools["inner"] = runs(t, h, keeps, script.Limits{})
	p := scripttest.Compile(t, `
def run(params):
    for mb in [20, 10, 20]: call_tool("inner", {"mb": mb})
    keep = ["x" * 1000000 for i in range(40)]
`)
	if _, err := p.Run(t.Context(), script.RunOptions{Host: h, Pool: pool}); err != nil {
		t.Fatal(err)
	}
	if now != 0 || most > 60e6 || len(falls) != 4 {
		t.Fatalf("%d bytes are left, %d were the most, and it fell by %v MB", now, most, falls)
	}
	for i, mb := range []int64{20, 10, 20, 40} {
		if falls[i] < mb || falls[i] > mb+mb/2 {
			t.Errorf("it fell by %v MB", falls)
		}
	}
}

// slowToHear is a host whose client takes its time to read what a script logs.
type slowToHear struct {
	scripttest.Host
	heard chan struct{}
}

func (s *slowToHear) Notify(context.Context, builtins.Notice) { <-s.heard }

// TestALogThatNobodyReadsHoldsUpNobody: the only slot is free while a run waits until its log message is read.
func TestALogThatNobodyReadsHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := script.NewPool(1<<30, 1, nil)
		slow := &slowToHear{heard: make(chan struct{})}
		ended := make(chan error)
		go func() {
			_, err := scripttest.Compile(t, `
def run(params):
    log("hello")
    return [i for i in range(10000)][0]
`).Run(t.Context(), script.RunOptions{Host: slow, Pool: pool})
			ended <- err
		}()
		synctest.Wait()
		if _, err := scripttest.Compile(t, `def run(params): return 1`).Run(t.Context(), script.RunOptions{Pool: pool}); err != nil {
			t.Error(err)
		}
		close(slow.heard)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestRoomForAnswers: reading of large answers is bounded for each request and for all; every reader gets room in the
// end, and what was not needed is returned.
func TestRoomForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := script.NewPool(8*96<<20, 1, nil) // room for 96 MB
		var mu sync.Mutex
		var now, most int64
		h := &scripttest.Host{}
		h.Tools = map[string]scripttest.Tool{"large": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			n, err := script.Room(ctx, 8<<20)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			now += n
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now -= n
			mu.Unlock()
			script.NoteRead(ctx, 1<<20)
			return scripttest.Structured("{}"), nil
		}}
		p := scripttest.Compile(t, `def run(params): return len(parallel(lambda i: call_tool("large"), range(20)))`)
		one := func(memory int64) {
			if _, err := p.Run(t.Context(), script.RunOptions{Host: h, Pool: pool, Limits: script.Limits{Memory: script.Bytes(memory)}}); err != nil {
				t.Error(err)
			}
		}
		one(96 << 20)
		if most != 24<<20 {
			t.Errorf("a request with 96MB had %d MiB under way, want a quarter", most>>20)
		}
		most = 0
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { one(256 << 20) })
		}
		all.Wait()
		if most != 96<<20 {
			t.Errorf("four requests had %d MiB under way, want 96", most>>20)
		}
		_, err := p.Run(t.Context(), script.RunOptions{Host: h, Pool: pool, Limits: script.Limits{Memory: 96 << 20, Time: script.Duration(1500 * time.Millisecond)}})
		if limitOf(err) != "time" {
			t.Errorf("a run whose time is over while calls wait for room: %v", err)
		}
		one(256 << 20)
	})
}

// TestALongOperationHoldsUpNobody: while one operation takes long with the only slot, other runs compute.
func TestALongOperationHoldsUpNobody(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	long := starlark.NewBuiltin("long", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		begun <- struct{}{}
		<-end
		return starlark.None, nil
	})
	pool := script.NewPool(1<<30, 1, nil)
	slow := compile(t, "def run(params): return long()", starlark.StringDict{"long": long})
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := slow.Run(t.Context(), script.RunOptions{Pool: pool}); err != nil {
			t.Error(err)
		}
	})
	<-begun
	short := scripttest.Compile(t, `def run(params): return [i for i in range(10000)][0]`)
	for range 3 {
		for range 3 {
			all.Go(func() {
				if _, err := short.Run(t.Context(), script.RunOptions{Pool: pool}); err != nil {
					t.Error(err)
				}
			})
		}
		if _, err := short.Run(t.Context(), script.RunOptions{Pool: pool}); err != nil {
			t.Error(err)
		}
	}
	close(end)
	all.Wait()
	if use := pool.Usage(); use.Charged != 0 || use.Active != 0 || use.Free != 1 {
		t.Errorf("the pool has %+v; want 0 bytes, 0 runs, 1 free slot", use)
	}
}
