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

// repeated returns n times a text with the number of each in place of N, and of the one before in place of M.
func repeated(text string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.NewReplacer("N", fmt.Sprint(i), "M", fmt.Sprint(max(i-1, 0))).Replace(text))
	}
	return b.String()
}

const run = "def run(params):\n"

// large are files whose parts grow with n.
var large = map[string]func(n int) string{
	"keys": func(n int) string {
		return run + "    d = {" + repeated(`"kN": 1, `, n*2/3) + "}\n    return d[\"k1\"]\n"
	},
	"number keys": func(n int) string { return run + "    return {" + repeated(`N: 1, `, n) + "}\n" },
	"lists": func(n int) string {
		return run + "    return [" + repeated("[1, 1, 1, 1, 1, 1, 1, 1, 1, 1], ", n/10) + "]\n"
	},
	"functions": func(n int) string {
		return repeated("def fN(x):\n    return x + N\n\n", n/5) + run + "    return f0(1)\n"
	},
	"chain": func(n int) string {
		return repeated("def fN(x):\n    return fM(x)\n\n", n/5) + run + "    return f1(1)\n"
	},
	"variables": func(n int) string { return repeated("vN = 1\n", n/2) + run + "    return v1\n" },
	"conditions": func(n int) string {
		return repeated("vN = 1\n", n/4) + run + "    a = 1\n" + repeated("    if params:\n        a = vN\n", n/6) + "    return a\n"
	},
	"loops": func(n int) string {
		return run + "    a = {}\n" + repeated("    for i in range(N):\n        a[\"kN\"] = i\n", n/8) + "    return a\n"
	},
	"stores": func(n int) string {
		return run + "    d = {}\n" + repeated("    d[\"kN\"] = N\n", n/3) + "    return d\n"
	},
	"joins": func(n int) string {
		return run + "    d = {" + repeated(`"kN": N, `, n/6) + "}\n" + repeated("    d = {\"aN\": 1} if params else d\n", n/8) + "    return d\n"
	},
	"unions": func(n int) string {
		return run + "    d = {" + repeated(`"kN": N, `, n/6) + "}\n" + repeated("    d = d | {\"aN\": 1}\n", n/8) + "    return d\n"
	},
	"and": func(n int) string {
		return run + repeated("    if params.get(\"aN\") and params.get(\"bN\") or params.get(\"c\"):\n        pass\n", n/12)
	},
	"undefined":     func(n int) string { return run + repeated("    uN(1)\n", n/3) },
	"unknown tools": func(n int) string { return run + repeated("    call_tool(\"tN\")\n", n/3) },
	"unused":        func(n int) string { return run + repeated("    uN = 1\n", n/2) },
	"wrong fields":  func(n int) string { return run + "    d = {\"a\": 1}\n" + repeated("    print(d[\"bN\"])\n", n/4) },
	"nested": func(n int) string {
		return run + "    a = 1\n" + strings.Repeat("    for i in [1]:\n     for j in [1]:\n      for k in [1]:\n       for l in [1]:\n        a = a + i\n", n/16) + "    return a\n"
	},
	"lambdas": func(n int) string {
		return run + "    fs = []\n" + repeated("    fs.append(lambda x: x + N)\n", n/7) + "    return parallel(fs)\n"
	},
	"patterns": func(n int) string { return run + repeated("    re.search(\"(?i)[a-z]N\", \"a\")\n", n/5) },
	"strings":  func(n int) string { return run + "    return [" + strings.Repeat(`"a" + "b" + "c", `, n/5) + "]\n" },
	"comments": func(n int) string { return run + "    pass\n" + repeated("# vmcp: ignore N\n", n/3) },
	"returns":  func(n int) string { return run + repeated("    if params == N:\n        return {\"a\": N}\n", n/8) },
	"captured": func(n int) string {
		return run + repeated("    vN = N\n", n/6) + "    def g():\n        return [" + repeated("vN, ", n/6) + "]\n" + strings.Repeat("    g()\n", n/6)
	},
	"loads": func(n int) string { return repeated("load(\"l.star\", vN = \"a\")\n", n/3) + run + "    pass\n" },
	"declarations": func(n int) string {
		return repeated("tool(name = \"tN\", entry = \"fN\")\ndef fN(p):\n    return 1\n", n/9)
	},
	"elicitations": func(n int) string {
		return run + repeated("    elicit(\"N\", {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\"}}})\n", n/12)
	},
}

// TestChecksGrowWithTheFile checks files and others of twice the length: the check does not do more than three times as much,
// as far as what it allocates shows.
func TestChecksGrowWithTheFile(t *testing.T) {
	testmode.NeedThorough(t)
	library := script.File{Name: "l.star", Source: []byte("a = 1\n")}
	options := check.Options{Builtins: builtins.Table(), Tools: map[string]check.Tool{},
		Load: func(_, _ string) (script.File, error) { return library, nil }}
	allocated := func(source string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		check.File(script.File{Name: "x.star", Source: []byte(source)}, options)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for name, source := range large {
		small, twice := allocated(source(6000)), allocated(source(12000))
		if twice > 3*small {
			t.Errorf("%s: %d KB, and %d KB for twice the file", name, small>>10, twice>>10)
		}
	}
}
