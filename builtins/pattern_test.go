package builtins_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
)

// TestPatternsThatARunKeepsArePaidFor holds what compiled patterns take on the heap
// against what the run was charged for them, with the margin of docs/limits.md.
func TestPatternsThatARunKeepsArePaidFor(t *testing.T) {
	patterns := []string{
		`"\\pL" * 1300`, `"(\\b\\pL*)" * 50`, `"[^a]{900}"`, `"^\\w{900}"`, `"a|" * 2000`, `"()" * 90`, `"x" * 4000`,
	}
	if testmode.Thorough() {
		patterns = append(patterns, `"^" + "\\pL" * 1300`, `"^(?:" + "\\pL|\\pN|" * 500 + "x)"`)
	}
	for _, pattern := range patterns {
		t.Run(pattern, func(t *testing.T) {
			var before, kept runtime.MemStats
			src := fmt.Sprintf("for i in range(4):\n  re.match(%s + str(i), 'a')\nprint('now')\ndef run(params): pass\n", pattern)
			p, err := script.Compile(script.File{Name: "test.star", Source: []byte(src)}, script.Options{Builtins: builtins.All()})
			if err != nil {
				t.Fatal(err)
			}
			var stats script.Stats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err = p.Run(t.Context(), script.RunOptions{
				Host: world(), Stats: &stats, Limits: script.Limits{Memory: 1 << 30, Steps: 1 << 30},
				Print: func(_, _ string) { runtime.GC(); runtime.ReadMemStats(&kept) },
			})
			if err != nil {
				t.Fatal(err)
			}
			if grown := int64(kept.HeapAlloc) - int64(before.HeapAlloc); grown > stats.Memory*5/4 {
				t.Errorf("the heap grew by %d bytes, the run was charged for %d", grown, stats.Memory)
			}
		})
	}
}

// TestPatternIsPaidForOnce: a loop over lines costs what its matches cost.
func TestPatternIsPaidForOnce(t *testing.T) {
	cost := func(n int) script.Stats {
		src := fmt.Sprintf("def run(params):\n  for i in range(%d):\n    re.search('^(a|b){200}$', 'x')\n", n)
		p, err := script.Compile(script.File{Name: "test.star", Source: []byte(src)}, script.Options{Builtins: builtins.All()})
		if err != nil {
			t.Fatal(err)
		}
		var stats script.Stats
		if _, err := p.Run(t.Context(), script.RunOptions{Host: world(), Stats: &stats}); err != nil {
			t.Fatal(err)
		}
		return stats
	}
	one, many := cost(1), cost(1000)
	if bytes, steps := (many.Memory-one.Memory)/999, (many.Steps-one.Steps)/999; bytes > one.Memory/100 || steps > one.Steps/10 {
		t.Errorf("a second search costs %d bytes and %d steps, the first %d and %d", bytes, steps, one.Memory, one.Steps)
	}
}
