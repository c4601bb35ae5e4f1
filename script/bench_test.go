package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

func benchmark(b *testing.B, src string, o func() script.RunOptions) {
	b.Helper()
	p := scripttest.Compile(b, src)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Run(b.Context(), o()); err != nil {
			b.Fatal(err)
		}
	}
}

func plain() script.RunOptions {
	return script.RunOptions{Host: &scripttest.Host{Tools: map[string]scripttest.Tool{"echo": scripttest.Echo}}}
}

func journaled() script.RunOptions {
	o := plain()
	o.Journal = script.NewJournal()
	return o
}

// BenchmarkRunStart is a run that does nothing.
func BenchmarkRunStart(b *testing.B) {
	benchmark(b, `def run(params): return None`, plain)
}

// BenchmarkCompile is a script of about 50 lines.
func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		scripttest.Compile(b, asksFourTimes+strings.ReplaceAll(asksFourTimes, "def run", "def run2"))
	}
}

// BenchmarkCall100 is a run that calls a tool 100 times, without and with a journal.
func BenchmarkCall100(b *testing.B) {
	const src = `
def run(params):
    for n in range(100):
        call_tool("echo", {"n": n})
`
	b.Run("plain", func(b *testing.B) { benchmark(b, src, plain) })
	b.Run("journal", func(b *testing.B) { benchmark(b, src, journaled) })
}

// BenchmarkBranch100 is a run of 100 branches.
func BenchmarkBranch100(b *testing.B) {
	for _, body := range []string{"n", `call_tool("echo", {"n": n})`} {
		src := fmt.Sprintf("def run(params): parallel(lambda n: %s, range(100))", body)
		b.Run(body, func(b *testing.B) { benchmark(b, src, plain) })
	}
}

// BenchmarkReplay100 goes over a journal of 100 calls.
func BenchmarkReplay100(b *testing.B) {
	o := journaled()
	benchmark(b, `
def run(params):
    for n in range(100):
        call_tool("echo", {"n": n})
`, func() script.RunOptions { return o })
}
