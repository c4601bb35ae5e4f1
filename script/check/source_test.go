package check_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// Sources within the limit of size that make a careless compiler or checker work for
// minutes or ask for gigabytes.
func TestHostileSourcesAreReadInReasonableSpace(t *testing.T) {
	testmode.NeedThorough(t)
	lines := func(n int, line func(i int) string) string {
		var b strings.Builder
		b.WriteString("def run(p): pass\n")
		for i := range n {
			b.WriteString(line(i))
		}
		return b.String()
	}
	for _, tt := range []struct{ name, src string }{
		{"thousands of names, none of them defined", lines(20000, func(i int) string {
			if i%2 == 0 {
				return fmt.Sprintf("a%05d=1\n", i)
			}
			return fmt.Sprintf("b%05d\n", i)
		})},
		{"texts that double", "a0='x'\n" + lines(5000, func(i int) string { return fmt.Sprintf("a%d=a%d+a%d\n", i+1, i, i) })},
		{"keys that take for ever to hash", "a0=(1,1)\n" + lines(60, func(i int) string { return fmt.Sprintf("a%d=(a%d,a%d)\n", i+1, i, i) }) + "d={a60:1}\n"},
		{"a form of forms", "a0=[1,1]\n" + lines(60, func(i int) string { return fmt.Sprintf("a%d=[a%d,a%d]\n", i+1, i, i) }) + "elicit('x', {'a': a60})\n"},
		{"a large form many times", "F={'type':'object','properties':{'a':{'type':'string','title':'" + strings.Repeat("x", 20000) + "'}}}\n" +
			lines(12000, func(int) string { return "elicit('', F)\n" })},
		{"a long unknown name", strings.Repeat("x", 100000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := script.File{Name: "s.star", Source: []byte(tt.src)}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = script.Compile(f, script.Options{Builtins: builtins.All()}) // whether it compiles is not the point
			check.File(f, check.Options{Builtins: builtins.Table()})
			_, _ = check.ReadDeclarations(f, script.Limits{})
			runtime.ReadMemStats(&after)
			if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 500 {
				t.Errorf("asked for %d MiB", n)
			}
		})
	}
}

// TestByteOrderMark: an invisible byte order mark is reported as such.
func TestByteOrderMark(t *testing.T) {
	f := script.File{Name: "s.star", Source: []byte("\ufeffdef run(params):\n    return 1\n")}
	const want = "s.star:1:1: error: the file begins with a byte order mark; save it as UTF-8 without one [syntax]"
	if got := check.File(f, check.Options{}); len(got) != 1 || got[0].Error() != want {
		t.Errorf("check: %v\nwant %s", got, want)
	}
}

// TestNULIsNoText: the scanner ends a text at its first NUL, so that the rest would not be checked.
func TestNULIsNoText(t *testing.T) {
	const want = "s.star:2:10: a NUL character: this is not a text file"
	f := script.File{Name: "s.star", Source: []byte("def run(params):\n    é = \"\x00\"\n")}
	if _, err := script.Compile(f, script.Options{}); err == nil || err.Error() != want {
		t.Errorf("Compile: %v\nwant %s", err, want)
	}
	if got := check.File(f, check.Options{}); len(got) != 1 || !strings.Contains(got.Error(), "a NUL character") {
		t.Errorf("check: %v", got)
	}
}
