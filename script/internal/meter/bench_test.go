package meter_test

import (
	"maps"
	"testing"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/metertest"
)

// meteringKinds are the kinds of script whose metering is measured.
var meteringKinds = []struct{ name, source string }{
	{"arithmetic", `
def run(params):
    total = 0
    for i in range(20000):
        total = (total * 31 + i) % 1000003
        if total > i:
            total -= i // 2
    return total
`},
	{"strings", `
def run(params):
    lines = []
    for i in range(3000):
        line = "item %d: " % i + "value ".upper() + str(i * 2)
        if line.startswith("item 1"):
            line = line.replace("value", "VALUE").strip()
        lines.append(line)
    text = "\n".join(lines)
    return len([l for l in text.split("\n") if "VALUE" in l])
`},
	{"shuffling", `
def run(params):
    groups = {}
    for i in range(5000):
        key = "k" + str(i % 50)
        if key not in groups:
            groups[key] = []
        groups[key].append((i, key))
    out = []
    for key, items in groups.items():
        best = sorted(items, reverse = True)[0:5]
        out.extend([x for x, _ in best])
    return {k: len(v) for k, v in groups.items()}
`},
	{"calls", `
def add(a, b = 1):
    return a + b

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def run(params):
    total = 0
    for i in range(5000):
        total = add(total, b = i)
    return total + fib(15)
`},
	{"json", `
def run(params):
    out = []
    for item in params["items"]:
        owner = item["owner"]
        if item["active"] and item["price"] > 10:
            out.append({"id": item["id"], "name": item["name"].upper(), "owner": owner["login"], "tags": ",".join(item["tags"]), "total": item["price"] * 2})
    by_owner = {}
    for item in out:
        by_owner.setdefault(item["owner"], []).append(item["id"])
    return {"items": out, "owners": sorted(by_owner.keys())}
`},
}

// BenchmarkMetering compares runs with and without metering, from call to result.
func BenchmarkMetering(b *testing.B) {
	for _, kind := range meteringKinds {
		for _, metering := range []bool{false, true} {
			name := kind.name + "/plain"
			if metering {
				name = kind.name + "/metered"
			}
			b.Run(name, func(b *testing.B) { benchmarkMetering(b, kind.source, metering) })
		}
	}
}

func benchmarkMetering(b *testing.B, source string, metering bool) {
	f, err := dialect.Parse("bench.star", source, 0)
	if err != nil {
		b.Fatal(err)
	}
	predeclared := starlark.StringDict{}
	if metering {
		maps.Copy(predeclared, meter.Universe())
		if _, err := meter.Instrument(f, nil); err != nil {
			b.Fatal(err)
		}
	}
	program, err := starlark.FileProgram(f, predeclared.Has)
	if err != nil {
		b.Fatal(err)
	}
	params, err := meter.Decode(nil, metertest.Payload(100_000), 100)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		thread := &starlark.Thread{}
		if metering {
			thread = metertest.Thread(meter.Amount{Steps: 100e6, Memory: 4 << 30}, 200)
		}
		globals, err := program.Init(thread, predeclared)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := starlark.Call(thread, globals["run"], starlark.Tuple{params}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
