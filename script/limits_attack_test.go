package script_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/internal/metertest"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/limits.md")

const (
	attackMemory = 256 << 20
	// What a run may take of the process: its limit and a quarter of it, for garbage that the
	// charges do not know of, besides what a Go process has anyway.
	attackFactor = 1.25
	attackBase   = 48 << 20
)

// attack is a hostile program from testdata/attacks.
type attack struct {
	name, source string
	steps        uint64 // 0: the test's
}

func attacks(t testing.TB) []attack {
	paths, err := filepath.Glob("testdata/attacks/*.star")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no attacks: %v", err)
	}
	var all []attack
	for _, path := range paths {
		all = append(all, readAttack(t, path))
	}
	return all
}

var (
	optsLine = regexp.MustCompile(`(?m)^# opts:.*steps=(\d+)`)
	genLine  = regexp.MustCompile(`(?m)^#!gen ("(?:[^"\\]|\\.)*") ("(?:[^"\\]|\\.)*") (\d+) ("(?:[^"\\]|\\.)*")$`)
	genFuncs = regexp.MustCompile(`(?m)^#!genfuncs (\d+)$`)
)

// readAttack reads a program: "# opts: steps=N" sets its steps, "#!gen a b N c" stands
// for a, N times b, and c, and "#!genfuncs N" for N functions that call each other.
func readAttack(t testing.TB, path string) attack {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a := attack{name: strings.TrimSuffix(filepath.Base(path), ".star"), source: string(data)}
	if m := optsLine.FindStringSubmatch(a.source); m != nil {
		a.steps, _ = strconv.ParseUint(m[1], 10, 64)
	}
	if m := genLine.FindStringSubmatch(a.source); m != nil {
		n, _ := strconv.Atoi(m[3])
		a.source = unquote(t, m[1]) + strings.Repeat(unquote(t, m[2]), n) + unquote(t, m[4])
	}
	if m := genFuncs.FindStringSubmatch(a.source); m != nil {
		n, _ := strconv.Atoi(m[1])
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "def f%d(x):\n    return f%d(x)\n", i, i+1)
		}
		fmt.Fprintf(&b, "def f%d(x):\n    return x\ndef run(params):\n    return f0(1)\n", n)
		a.source = b.String()
	}
	return a
}

func unquote(t testing.TB, s string) string {
	s, err := strconv.Unquote(s)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// played is how a program ended.
type played struct {
	Kind string // "completed", "error", or the name of a limit
	Text string
	Peak int64         // resident bytes
	Time time.Duration // compiling included
	Used script.Stats
}

// play compiles and runs a program.
func play(source string, l script.Limits) (o played) {
	start := time.Now()
	err := playErr(source, l, &o.Used)
	o.Time = time.Since(start)
	var (
		limit *script.LimitError
		crash *script.Crash
	)
	switch {
	case err == nil:
		o.Kind = "completed"
	case errors.As(err, &crash):
		o.Kind, o.Text = "crash", fmt.Sprintf("%v\n%s", crash.Value, crash.Stack)
	case errors.As(err, &limit):
		o.Kind, o.Text = limit.Limit, err.Error()
	default:
		o.Kind, o.Text = "error", err.Error()
	}
	if len(o.Text) > 2000 {
		o.Text = o.Text[:2000]
	}
	return o
}

func playErr(source string, l script.Limits, used *script.Stats) error {
	p, err := script.Compile(script.File{Name: "attack.star", Source: []byte(source)}, script.Options{Limits: l, Builtins: starlark.StringDict{"json": jsonModule}})
	if err != nil {
		return err
	}
	_, err = p.Run(context.Background(), script.RunOptions{Stats: used})
	return err
}

// jsonModule is the json that the attacks know.
var jsonModule = &starlarkstruct.Module{Name: "json", Members: starlark.StringDict{
	"decode": starlark.NewBuiltin("json.decode", func(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var s string
		if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &s); err != nil {
			return nil, err
		}
		return script.DecodeIn(t, []byte(s), 100)
	}),
	"encode": starlark.NewBuiltin("json.encode", func(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var x starlark.Value
		if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &x); err != nil {
			return nil, err
		}
		data, err := script.EncodeIn(t, x, 100)
		return starlark.String(data), err
	}),
	"indent": starlark.NewBuiltin("json.indent", func(t *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var s, prefix, indent string
		if err := starlark.UnpackArgs(b.Name(), args, kwargs, "s", &s, "prefix?", &prefix, "indent?", &indent); err != nil {
			return nil, err
		}
		text, err := indentIn(t, s, prefix, indent)
		return starlark.String(text), err
	}),
}}

// indentIn is json.indent as the attacks know it.
func indentIn(t *starlark.Thread, text, prefix, indent string) (string, error) {
	if err := script.Charge(t, indentSize(text, len(prefix), len(indent))); err != nil {
		return "", err
	}
	if err := script.Work(t, int64(len(text))/8); err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), prefix, indent); err != nil {
		return "", err
	}
	return out.String(), nil
}

// indentSize is four times the length of the result: a buffer that grows has asked
// for as much.
func indentSize(text string, prefix, indent int) (size int64) {
	size = int64(len(text))
	var (
		depth  int64
		quoted bool
	)
	for i := 0; i < len(text); i++ {
		line := false
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			depth++
			line = true
		case c == ']', c == '}':
			depth--
			line = true
		case c == ',', c == ':':
			line = true
		}
		if line {
			size += 2 + int64(prefix) + max(depth, 0)*int64(indent)
		}
		if size < 0 || size > 1<<60 {
			return 1 << 60
		}
	}
	return 4 * size
}

var structBuiltin = starlark.NewBuiltin("struct", starlarkstruct.Make)

// runForStats runs a program and returns the memory that it was charged.
func runForStats(ctx context.Context, p *script.Program, l script.Limits) (int64, error) {
	var stats script.Stats
	_, err := p.Run(ctx, script.RunOptions{Limits: l, Stats: &stats})
	return stats.Memory, err
}

func crashed(err error) bool {
	var c *script.Crash
	return errors.As(err, &c)
}

const attackEnv = "SCRIPT_TEST_ATTACK"

// TestAttackChild is the process that one attack runs in.
func TestAttackChild(t *testing.T) {
	path := os.Getenv(attackEnv)
	if path == "" {
		t.Skip("is started by TestAttacks")
	}
	steps, _ := strconv.ParseUint(os.Getenv(attackEnv+"_STEPS"), 10, 64)
	a := readAttack(t, path)
	if a.steps == 0 {
		a.steps = steps
	}
	o := play(a.source, script.Limits{Steps: int64(a.steps), Memory: attackMemory})
	o.Peak = peakRSS(t)
	line, _ := json.Marshal(o)
	fmt.Printf("\noutcome: %s\n", line)
}

// peakRSS returns the most memory that this process has had.
func peakRSS(t testing.TB) int64 {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatal("no VmHWM in /proc/self/status")
	}
	kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
	return kb << 10
}

// inChild plays a program in a process of its own, so that a crash shows as one.
func inChild(t *testing.T, path string, steps uint64) played {
	cmd := exec.Command(os.Args[0], "-test.run=^TestAttackChild$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), attackEnv+"="+path, fmt.Sprintf("%s_STEPS=%d", attackEnv, steps))
	out, err := cmd.CombinedOutput()
	_, line, found := bytes.Cut(out, []byte("\noutcome: "))
	if err != nil || !found {
		t.Fatalf("%s with %d steps: the process ended: %v\n%.3000s", path, steps, err, out)
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	var o played
	if err := json.Unmarshal(line, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// Every hostile program ends by a limit, by an error of the script, or on its own; and
// the process stays below the limit on memory.
func TestAttacks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each program")
	}
	table := []string{
		"| program | what | 1M steps | peak | time | 10M steps | peak | time |",
		"|---|---|---|---|---|---|---|---|",
	}
	programs, allowances := attacks(t), []uint64{1_000_000, 10_000_000}
	if !testmode.Thorough() && !*update {
		programs, allowances = sample(programs, 30), allowances[:1]
	}
	for _, a := range programs {
		row := fmt.Sprintf("| %s | %s |", a.name, about(t, a.name))
		for _, steps := range allowances {
			t.Run(fmt.Sprintf("%s/%d", a.name, steps), func(t *testing.T) {
				o := inChild(t, "testdata/attacks/"+a.name+".star", steps)
				t.Logf("%s, %d MB, %v %.200s", o.Kind, o.Peak>>20, o.Time.Round(time.Millisecond), o.Text)
				if o.Kind == "crash" {
					t.Errorf("crashed: %s", o.Text)
				}
				if most := int64(attackMemory*attackFactor) + attackBase; o.Peak > most {
					t.Errorf("peak RSS %d MB, want at most %d MB", o.Peak>>20, most>>20)
				}
				row += fmt.Sprintf(" %s | %d MB | %d ms |", o.Kind, o.Peak>>20, o.Time.Milliseconds())
			})
		}
		table = append(table, row)
	}
	if *update && !t.Failed() {
		metertest.WriteTable(t, "../docs/limits.md", "attacks", strings.Join(table, "\n"))
	}
}

// sample is every nth of all, for the quick form of the tests.
func sample[T any](all []T, n int) (some []T) {
	for i := 0; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

// about returns what a program says it does.
func about(t *testing.T, name string) string {
	data, err := os.ReadFile("testdata/attacks/" + name + ".star")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.ReplaceAll(strings.TrimPrefix(line, "# what: "), "|", "\\|")
}

// Concurrent attacks in one process do not prevent an honest program from being served.
func TestAttacksBesideHonestCalls(t *testing.T) {
	testmode.NeedThorough(t) // TestAttack of test/attacks has calls beside an attack in the quick form, too
	p := compile(t, "def run(params):\n    return [x * 2 for x in range(100)]\n", nil)
	stop := make(chan struct{})
	served := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				served <- n
				return
			default:
			}
			if _, err := p.Run(context.Background(), script.RunOptions{}); err != nil {
				t.Errorf("honest call: %v", err)
			}
			n++
		}
	}()
	var wg sync.WaitGroup
	room := make(chan struct{}, 4)
	for _, a := range attacks(t) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			room <- struct{}{}
			defer func() { <-room }()
			if o := play(a.source, script.Limits{Memory: 64 << 20}); o.Kind == "crash" {
				t.Errorf("%s crashed: %s", a.name, o.Text)
			}
		}()
	}
	wg.Wait()
	close(stop)
	if n := <-served; n == 0 {
		t.Error("no honest call was served")
	} else {
		t.Logf("%d honest calls were served meanwhile", n)
	}
}

// compile compiles a program with the given builtins and json.
func compile(t testing.TB, source string, builtins starlark.StringDict) *script.Program {
	t.Helper()
	all := starlark.StringDict{"json": jsonModule}
	for name, v := range builtins {
		all[name] = v
	}
	p, err := script.Compile(script.File{Name: "test.star", Source: []byte(source)}, script.Options{Builtins: all})
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	return p
}
