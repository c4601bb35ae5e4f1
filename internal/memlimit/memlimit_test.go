package memlimit

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
)

// TestTheLimitMoves: it rises with what is charged, at once and in steps, sinks after a
// collection only, and is the ceiling where nothing is charged.
func TestTheLimitMoves(t *testing.T) {
	var now, live int64
	l := &Limit{ceiling: 1 << 30, apply: func(n int64) { now = n }, live: func() int64 { return live }}
	l.armed = true // collections are made by hand
	l.set(l.ceiling)
	for i, tt := range []struct {
		what          string
		charged, live int64 // live < 0: no collection
		want          int64
	}{
		{"a run begins", 5 << 20, -1, 64 << 20},
		{"it grows a little", 20 << 20, -1, 64 << 20},
		{"it grows", 256 << 20, -1, 320 << 20},
		{"it has ended, its garbage is there", 1 << 20, -1, 320 << 20},
		{"collected, but it was alive then", 1 << 20, 220 << 20, 256 << 20},
		{"collected, but that had begun before", 1 << 20, 220 << 20, 256 << 20},
		{"another one is over soon", 128 << 20, -1, 256 << 20},
		{"collected", 1 << 20, 20 << 20, 64 << 20},
		{"collected", 1 << 20, 20 << 20, 64 << 20},
		{"the relay needs more", 1 << 20, 200 << 20, 256 << 20},
		{"more than there may be", 900 << 20, -1, 1 << 30},
		{"most have ended", 1 << 20, 20 << 20, 64 << 20},
		{"all have ended", 0, -1, 64 << 20},
		{"collected", 0, 20 << 20, 1 << 30},
	} {
		l.Note(tt.charged)
		if tt.live >= 0 {
			live = tt.live
			l.collected()
			l.armed = true
		}
		if now != tt.want {
			t.Errorf("%d %s: the limit is %d MiB, want %d", i, tt.what, now>>20, tt.want>>20)
		}
	}
}

// TestTheRuntimeHasTheLimit: the runtime's own limit follows, collections are noticed.
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
