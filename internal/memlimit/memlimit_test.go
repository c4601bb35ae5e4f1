package memlimit

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
)

// TestTheLimitMoves: it rises with the charge, at once and in steps, is lowered only after
// a collection, and is the ceiling while nothing is charged.
func TestTheLimitMoves(t *testing.T) {
	var now, live int64
	never := make(chan struct{})
	defer close(never)
	l := &Limit{ceiling: 1 << 30, apply: func(n int64) { now = n }, live: func() int64 { return live }, collect: func() { <-never }}
	l.armed = true // collections are made by hand
	l.set(l.ceiling)
	for i, tt := range []struct {
		what          string
		charged, live int64 // live < 0: no collection
		want          int64
	}{
		{"a run begins", 5 << 20, -1, 64 << 20},
		{"it grows less than a step", 7 << 20, -1, 64 << 20},
		{"it grows a little", 20 << 20, -1, 80 << 20},
		{"it grows", 256 << 20, -1, 304 << 20},
		{"it has ended, its garbage is there", 1 << 20, -1, 304 << 20},
		{"collected, but it was alive then", 1 << 20, 220 << 20, 280 << 20},
		{"collected", 1 << 20, 21 << 20, 80 << 20},
		{"another one is over before it is known", 128 << 20, -1, 192 << 20},
		{"collected while it runs: the process needs what it did", 128 << 20, 140 << 20, 192 << 20},
		{"it ends while it is counted what is alive", 1 << 20, -1, 192 << 20},
		{"and two are there by then", 200 << 20, 340 << 20, 376 << 20},
		{"collected: the process needs what it did", 200 << 20, 220 << 20, 256 << 20},
		{"most have ended", 1 << 20, 20 << 20, 80 << 20},
		{"the relay needs more", 1 << 20, 200 << 20, 256 << 20},
		{"and less", 1 << 20, 20 << 20, 80 << 20},
		{"more than there may be", 990 << 20, -1, 1 << 30},
		{"most have ended", 1 << 20, 20 << 20, 80 << 20},
		{"all have ended", 0, -1, 80 << 20},
		{"collected", 0, 20 << 20, 1 << 30},
	} {
		l.Note(tt.charged)
		if tt.live >= 0 {
			live = tt.live
			l.collected()
			l.armed = false
			l.arm()
		}
		if now != tt.want {
			t.Errorf("%d %s: the limit is %d MiB, want %d", i, tt.what, now>>20, tt.want>>20)
		}
	}
}

// TestGarbageIsWaitedFor: the garbage of large scripts is collected, and meanwhile others may grow only a
// little over the highest total charge.
func TestGarbageIsWaitedFor(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	l := &Limit{ceiling: 1 << 30, apply: func(int64) {}, live: func() int64 { return 0 }, collect: func() {
		begun <- struct{}{}
		<-finish
	}}
	l.armed = true // no other collection is noticed
	note := func(charged int64, waits bool) <-chan struct{} {
		t.Helper()
		collecting := l.Note(charged << 20)
		if (collecting != nil) != waits {
			t.Fatalf("with %d MiB charged a script waits: %v, want %v", charged, collecting != nil, waits)
		}
		return collecting
	}
	for range 100 {
		note(7, false)
		note(0, false) // small ones do not count
	}
	note(256, false)
	note(0, false)
	<-begun
	note(32, false)
	first := note(33, true)
	note(0, true) // this one has left 33 more
	note(70, true)
	note(0, true) // and this one 70
	finish <- struct{}{}
	<-first
	<-begun // for the other two
	note(10, false)
	second := note(200, true)
	finish <- struct{}{}
	<-second
	note(200, false)
	note(500, false)
	note(440, false) // 60 are not worth a collection
	note(600, false)
}

// TestTheRuntimeCollects: the garbage of a script is freed when the waiting callers continue.
func TestTheRuntimeCollects(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	l := New()
	l.Note(100 << 20)
	kept := make([]byte, 100<<20)
	kept[0] = 1
	runtime.KeepAlive(kept)
	kept = nil
	l.Note(0)
	var stats runtime.MemStats
	for collecting := l.Note(200 << 20); collecting != nil; collecting = l.Note(200 << 20) {
		<-collecting
	}
	if runtime.ReadMemStats(&stats); stats.HeapAlloc > 50<<20 {
		t.Errorf("%d MiB are in the heap", stats.HeapAlloc>>20)
	}
}

// TestTheRuntimeHasTheLimit: the limit of the runtime is set, and collections are detected.
func TestTheRuntimeHasTheLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	l := New()
	l.Note(100 << 20)
	high := debug.SetMemoryLimit(-1)
	if high < 128<<20 || high >= l.Ceiling() {
		t.Errorf("with 100 MiB charged the limit is %d MiB", high>>20)
	}
	l.Note(1 << 20)
	for range 1000 {
		if debug.SetMemoryLimit(-1) < high {
			return
		}
		runtime.GC()
	}
	t.Errorf("after collections the limit is still %d MiB", high>>20)
}

func TestCgroupLimit(t *testing.T) {
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, self string
		files      map[string]string
		want       int64
	}{
		{"version 2", "0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "1000\n"}, 900},
		{"a container", "0::/\n", map[string]string{"memory.max": "2000\n"}, 1800},
		{"version 1", "3:memory:/x\n0::/\n", map[string]string{"memory/x/memory.limit_in_bytes": "3000\n"}, 2700},
		{"none", "0::/\n", nil, math.MaxInt64},
		{"version 1, none", "3:memory:/\n", map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712\n"}, math.MaxInt64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(filepath.Join(root, "self"), tt.self)
			for name, text := range tt.files {
				write(filepath.Join(root, name), text)
			}
			if got := cgroupLimit(filepath.Join(root, "self"), root); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
