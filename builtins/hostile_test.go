package builtins_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
)

// TestHostileUseOfBuiltins tries to exhaust the process through builtins. Each attempt ends with an error, and
// allocates at most a small multiple of the limit. Those that use a million steps of the slowest kind are in the
// thorough form.
func TestHostileUseOfBuiltins(t *testing.T) {
	testmode.NeedThorough(t)
	const chain = "s = struct()\nfor i in range(60):\n  s = struct(a=s, b=s)\n"
	const loop = "l = []\nl.append(l)\n"
	type hostile struct{ src, want string }
	attempts := []hostile{
		{chain + `d = {s: 1}`, "limit reached: steps"},
		{chain + `s == struct(a=s)`, ""},
		{chain + `log(s)`, "limit reached: steps"},
		{chain + `json.encode(s)`, "limit reached: steps"},
		{chain + `call_tool("echo", {"s": s})`, "limit reached: steps"},
		{loop + `json.encode(l)`, "list contains itself"},
		{loop + `call_tool("echo", {"a": l})`, "list contains itself"},
		{`json.decode("[" * 50000000)`, "nested more than 100 deep"},
		{`json.indent("[" * 9000 + "]" * 9000, " " * 1000000)`, "limit reached: memory"},
		{`re.search("(a{1000}b{1000}){1000}", "a")`, "invalid repeat count"},
		{`re.search("a{900}" * 50, "a")`, "too large"},
		{`re.search("()" * 1900, "a")`, "too large"},
		{`re.search("(x+x+)+y" * 50, "x" * 1000000)`, "limit reached: steps"},
		{`re.sub("a", "\\1" * 5000000, "b")`, "the limit is 4KB"},
		{`re.sub("", "x" * 1000, "a" * 1000000)`, "limit reached: memory"},
		{`re.sub("", lambda m: "x" * 1000, "a" * 1000000)`, "limit reached: memory"},
		{`result(content=["a"] * 2000000)`, "limit reached: memory"},
		{`elicit("a" * 100000000)`, "the limit is 64KB"},
		{`elicit("?", {"type": "object", "properties": {"a" + str(i): {"type": "string"} for i in range(5000)}})`, "the limit is 32KB"},
		{`call_tool("a" * 100000000)`, "the limit is 1000"},
		{`fail("a" * 50000000)`, "(50000006 bytes)"},
		{`parallel(lambda n: n, range(1 << 60))`, "limit reached: branches"},
		{"for i in range(2):\n  parallel([lambda: 1] * 1000)", "limit reached: branches"},
		{"def f(): return retry(f)\nf()", "limit reached: callDepth"},
		{`sorted(pages("numbers", {"n": 100000}))`, "limit reached: calls"},
		{"while True: log('x')", "limit reached: "},
		{`time.now().format("x" * 100000000)`, "at most 1000 are accepted"},
		{`sleep("1h")`, ""},
		{`call_tool("hang", timeout="10h")`, "no answer within 5m0s"},
	}
	if testmode.Thorough() {
		attempts = append(attempts,
			hostile{chain + `str(s)`, "limit reached: steps"},
			hostile{`re.findall("\\bx*y|x", "x" * 1000000)`, "limit reached: steps"},
			hostile{`re.findall("x*y|x", "x" * 1000000)`, "limit reached: steps"},
			hostile{`retry(lambda: 1 // 0, max_attempts=1000000000, delay=0)`, "limit reached: steps"},
			hostile{"while True: time.now()", "limit reached: steps"})
	}
	for _, tt := range attempts {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(tt.src, chain), loop), "\n")
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := execInBubble(t, tt.src)
			runtime.ReadMemStats(&after)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("got %.300s\nwant %s", got, tt.want)
			}
			most := 4 * uint64(script.DefaultLimits().Memory)
			if n := after.TotalAlloc - before.TotalAlloc; n > most {
				t.Errorf("asked for %dMB", n>>20)
			}
		})
	}
}
