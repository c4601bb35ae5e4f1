//go:build linux

package isolate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/migrate/legacy"
	"github.com/vmcp-dev/vmcp/script"
)

// What a run leaves, isolated or not.
type remains struct {
	Result, Error, Msg, Pos, Backtrace string
	Final, Limit, Suspended            bool
	Stats                              script.Stats
	Journal, Trace, Calls, Notices     []string
	Printed                            []string
}

// observe runs a program and collects what it leaves.
func observe(ctx context.Context, p *script.Program, o script.RunOptions, h *scripttest.Host) remains {
	var r remains
	o.Host, o.Stats = h, &r.Stats
	o.Trace = func(e script.Event) {
		r.Trace = append(r.Trace, fmt.Sprintf("%s %s %q %v %d %v", e.Key, e.Kind, e.Name, e.Replayed, sizeOf(e), e.Err))
	}
	o.Print = func(pos, text string) { r.Printed = append(r.Printed, pos+": "+text) }
	res, err := p.Run(ctx, o)
	if err != nil {
		r.Error = err.Error()
		var e *script.Error
		if errors.As(err, &e) {
			r.Msg, r.Pos, r.Backtrace = e.Msg, e.Pos.String(), e.Backtrace
		}
		r.Final = script.Final(err)
		r.Limit = errors.As(err, new(*script.LimitError))
		var s *script.Suspended
		if errors.As(err, &s) {
			r.Suspended = true
			for _, q := range s.Questions {
				r.Error += fmt.Sprintln(q.Key, q.Method, string(q.Params), q.Deadline.IsZero())
			}
		}
	} else {
		r.Result = fmt.Sprintf("%s %s %v", res.Structured, res.Content, res.IsError)
	}
	for _, c := range h.Calls() {
		r.Calls = append(r.Calls, c.Tool+" "+c.Args)
	}
	for _, n := range h.Notices() {
		r.Notices = append(r.Notices, fmt.Sprintf("%+v", n))
	}
	r.Stats.Duration = 0
	return r
}

// sizeOf is the size of a result, but of those that depend on the time.
func sizeOf(e script.Event) int {
	if e.Kind == "now" || e.Kind == "workflow" {
		return 0
	}
	return e.Bytes
}

// recorder records what is written to a journal.
type recorder struct {
	*script.Memory
	mu      sync.Mutex
	entries []script.Entry
}

func (j *recorder) Record(e script.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
	return j.Memory.Record(e)
}

// texts are the entries, without the time.
func (j *recorder) texts() []string {
	var all []string
	for _, e := range j.entries {
		if e.Kind == "now" || e.Kind == "workflow" {
			e.Result = nil
		}
		e.Began, e.Ended, e.Until, e.Awake = time.Time{}, time.Time{}, time.Time{}, 0
		text, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		all = append(all, fmt.Sprintf("%s %q", text, e.Result))
	}
	return all
}

// program is one program of the differential test. Its branches run one after the other, since otherwise the order of
// their effects would depend on which call ends first.
type program struct {
	name, source string
	args         string
	limits       script.Limits
	origin       diag.Origin
	functions    []string // that it is compiled for; the last one is run
	restless     bool     // also with several workers, which else is left to thorough tests
}

// compare runs a program in both ways, each over the journal of the other, and with a worker that is given back at every wait.
func compare(t *testing.T, w *Workers, c program) {
	t.Helper()
	p, err := script.Compile(script.File{Name: c.name + ".star", Source: []byte(c.source), Origin: c.origin}, legacy.With(script.Options{Builtins: builtins.All(), Functions: c.functions}))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.functions); n > 0 {
		p = p.For(c.functions[n-1])
	}
	var ran [2]remains
	journals := [2]*recorder{{Memory: script.NewJournal()}, {Memory: script.NewJournal()}}
	o := script.RunOptions{Limits: c.limits, Args: json.RawMessage(c.args)}
	o.Limits.Parallel = 1
	ctx := t.Context()
	for i, isolation := range []script.Isolation{nil, w} {
		o.Isolation, o.Journal = isolation, journals[i]
		ran[i] = observe(ctx, p, o, world())
		ran[i].Journal = journals[i].texts()
	}
	same(t, "isolated", ran[1], ran[0])
	if testmode.Thorough() || c.restless {
		record := &recorder{Memory: script.NewJournal()}
		o.Journal = record
		several := observeRestless(t, w, p, o, world())
		several.Journal = record.texts()
		same(t, "with several workers", several, ran[0])
	}
	var again [2]remains
	for i, isolation := range []script.Isolation{w, nil} { // the other one's journal
		o.Isolation, o.Journal = isolation, journals[i]
		again[i] = observe(ctx, p, o, world())
		if again[i].Error == "" && (again[i].Result != ran[i].Result || again[i].Stats.Steps != ran[i].Stats.Steps || len(again[i].Calls) > 0) {
			t.Errorf("over the journal of the other way (isolated %v): %s %+v and calls %q, want %s %+v and none", isolation != nil, again[i].Result, again[i].Stats, again[i].Calls, ran[i].Result, ran[i].Stats)
		}
	}
	same(t, "over the journal of the other way", again[0], again[1])
}

func same(t *testing.T, what string, got, want remains) {
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			t.Errorf("%s: %s differs:\ngot  %.2000q\nwant %.2000q", what, g.Type().Field(i).Name, fmt.Sprint(g.Field(i).Interface()), fmt.Sprint(w.Field(i).Interface()))
		}
	}
}

// world is the host of the programs.
func world() *scripttest.Host {
	var mu sync.Mutex
	var answers []json.RawMessage
	failures := 0
	h := &scripttest.Host{}
	kindOf := func(kind, msg string) scripttest.Tool {
		return func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return nil, &builtins.ToolError{Kind: kind, Msg: msg}
		}
	}
	h.Tools = map[string]scripttest.Tool{
		"echo": scripttest.Echo, "greet": scripttest.Says("hello"), "refuse": scripttest.Fails("the door is closed"),
		"down": scripttest.Down("connection refused"), "hang": scripttest.Hangs,
		"invalid": kindOf(builtins.InvalidInput, "id: is required"), "denied": kindOf(builtins.Denied, "not for you"),
		"malformed": func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"structuredContent": [1`), nil
		},
		"stuck": scripttest.Returns(`{"items": [1], "nextCursor": "again"}`), "numbers": numbers,
		"flaky": func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			if failures++; failures <= number(args, "failures") {
				return nil, &builtins.ToolError{Kind: builtins.Unavailable, Msg: fmt.Sprintf("failure %d", failures)}
			}
			return scripttest.Structured(strconv.Itoa(failures)), nil
		},
		"reply": func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, args)
			return scripttest.Structured("null"), nil
		},
		"log": func(context.Context, json.RawMessage) (json.RawMessage, error) {
			raw, err := json.Marshal(h.Notices())
			return scripttest.Structured(string(raw)), err
		},
		"big": func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			return scripttest.Structured(strconv.Quote(strings.Repeat("x", number(args, "n")))), nil
		},
		"bigerr": func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"isError":true,"content":[{"type":"text","text":"` + strings.Repeat("x", number(args, "n")) + `"}]}`), nil
		},
		"blocks": func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"content":[{}` + strings.Repeat(",{}", max(0, number(args, "n")-1)) + `]}`), nil
		},
		"errblocks": func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"isError":true,"content":[{}` + strings.Repeat(",{}", max(0, number(args, "n")-1)) + `]}`), nil
		},
		"ints": func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			return scripttest.Structured(`{"items":[0` + strings.Repeat(",0", max(0, number(args, "n")-1)) + `]}`), nil
		},
		"a": scripttest.Returns(`1`), "wait": scripttest.Returns(`1`),
	}
	h.Answer = func(_ context.Context, q script.Question) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(answers) == 0 {
			return nil, builtins.ErrNoElicitation
		}
		a := answers[0]
		answers = answers[1:]
		if string(a) == `{"later":true}` {
			return nil, &script.Suspended{Questions: []script.Question{q}}
		}
		return a, nil
	}
	return h
}

func numbers(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
	n, from := number(args, "n"), number(args, "cursor")
	var items []string
	for i := from; i < min(n, from+2); i++ {
		items = append(items, strconv.Itoa(i))
	}
	next := "null"
	if from+2 < n {
		next = strconv.Itoa(from + 2)
	}
	return scripttest.Structured(`{"items":[` + strings.Join(items, ",") + `],"nextCursor":` + next + `}`), nil
}

func number(args json.RawMessage, name string) int {
	var all map[string]any
	_ = json.Unmarshal(args, &all)
	f, _ := all[name].(float64)
	return int(f)
}

// TestTheProgramsOfBuiltins runs the test programs of the builtins in both ways.
func TestTheProgramsOfBuiltins(t *testing.T) {
	files, err := filepath.Glob("../../builtins/testdata/*.star")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	w := newWorkers(t)
	bounds := script.Limits{Time: limits.Duration(5 * time.Minute), CallTimeout: limits.Duration(time.Minute)}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, chunk := range strings.Split(string(src), "\n---\n") {
			if slow(chunk) || !testmode.Thorough() && (i > 0 || strings.Contains(chunk, "retry(")) {
				continue
			}
			name := strings.TrimSuffix(filepath.Base(file), ".star") + strconv.Itoa(i)
			t.Run(name, func(t *testing.T) {
				compare(t, w, program{
					name: name, limits: bounds,
					source: "def eq(x, y): return None if x == y else fail(str(x) + \" is not \" + str(y))\n" + chunk + "\ndef run(params): pass\n",
				})
			})
		}
	}
}

// slow programs wait for real time here, or tell it.
func slow(src string) bool {
	for _, what := range []string{"sleep(\"1", "sleep(60", "sleep(time", "hour", "minute", "time.now()", "\"hang\"", "max_attempts=5", "delay=\"1"} {
		if strings.Contains(src, what) {
			return true
		}
	}
	return false
}

// asleep is what programs say that wait, with many branches in memory.
var asleep = regexp.MustCompile(`sleep\(\d\)`)

// TestTheAttacks runs hostile programs in both ways, with low limits. Those that are refused before they run do not
// reach a worker.
func TestTheAttacks(t *testing.T) {
	w := newWorkers(t)
	bounds := script.Limits{Time: limits.Duration(5 * time.Minute), Memory: 32 << 20, Steps: 200_000}
	for _, pattern := range []string{"../../test/attacks/testdata/*.star", "../../script/testdata/attacks/*.star"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal("no files", err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".star")
			if bytes.Contains(src, []byte("\n#!gen ")) || name == "k18_load" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				if name != "n85_struct_add" {
					testmode.NeedThorough(t)
				}
				compare(t, w, program{name: name, limits: bounds, args: `{"n": 3}`, source: asleep.ReplaceAllString(string(src), "sleep(0)")})
			})
		}
	}
}

// several is a file of several tools.
const several = `
seen = []

def one(params):
    seen.append(call_tool("echo", {"one": 1}))
    return seen

def two(params):
    if params.get("fail"):
        fail("no " + str(seen))
    return [one(params), call_tool("echo", params), parallel([lambda: one(params), lambda: len(seen)])]

def three(params):
    return lambda: params

run = one
`

// TestPrograms runs programs that the other tests do not have, in both ways.
func TestPrograms(t *testing.T) {
	w := newWorkers(t)
	for name, c := range map[string]program{
		"long_args":       {source: `def run(params): return len(call_tool("echo", {"s": "\x01" * 1600000})["s"])`},
		"long_result":     {source: `def run(params): return "\x01" * 1600000`},
		"longer_args":     {source: `def run(params): call_tool("echo", {"s": "x" * 11000000})`},
		"longer_result":   {source: `def run(params): return "x" * 11000000`},
		"long_answer":     {source: `def run(params): return len(call_tool("big", {"n": 8000000}))`},
		"longer_answer":   {source: `def run(params): return len(call_tool("big", {"n": 9000000}))`},
		"long_print":      {source: `def run(params): print("x" * 3000000)`},
		"long_log":        {source: `def run(params): log("x" * 3000000)`},
		"content":         {source: `def run(params): return result(content=[{"type": "text", "text": "a"}], structured={"a": 1}, is_error=True)`},
		"arguments":       {source: `def run(params): return params`, args: `{"a":[1,2.5,{"b":null}],"n":123456789012345678901234567890}`},
		"no_arguments":    {source: `def run(params): return params`, args: `{"a":`},
		"top_level":       {source: "x = 1 // 0\ndef run(params): pass"},
		"no_run":          {source: "run = 3"},
		"panic":           {source: "def run(params): return [][1]"},
		"calls":           {source: `def run(params): return [time.from_timestamp(0)] + [call_tool("a") for i in range(11)]`, limits: script.Limits{Calls: 10}},
		"nesting":         {source: "def f(n): return parallel(f, [n + 1])\ndef run(params): f(0)"},
		"branches":        {source: "def run(params): parallel(lambda n: n, range(1001))"},
		"depth":           {source: "def f(n): return f(n + 1)\ndef run(params): f(0)"},
		"depth_in_branch": {source: "def f(n): return f(n + 1) if n else parallel(lambda: f(1))\ndef run(params): f(0)"},
		"memory":          {source: "def run(params):\n  l = []\n  while True: l.append(\"x\" * 100000 + str(len(l)))"},
		"bad_utf8":        {source: `def run(params): fail("é"[:1])`},
		"odd_message":     {source: `def run(params): fail(json.decode('"\\ud800"'))`},
		"second":          {restless: true, source: several, functions: []string{"one", "two"}, args: `{"n":[1]}`},
		"second_fails":    {source: several, functions: []string{"run", "two"}, args: `{"fail":true}`},
		"second_no_json":  {source: several, functions: []string{"one", "three"}},
		"missing":         {source: `def run(params): return {"alpha": 1}["alpa"]`},
		"caught":          {source: `def run(params): return [try_call_tool(n).kind for n in ["a", "down", "refuse", "malformed", "nothing", "denied"]]`},
		"retried":         {restless: true, source: `def run(params): return retry(lambda: call_tool("flaky", {"failures": 2}), delay=0)`},
		"given_up":        {source: `def run(params): return retry(lambda: call_tool("down"), delay=0)`},
		"timeout":         {source: `def run(params): return call_tool("hang", timeout="50ms")`},
		"caught_late":     {restless: true, source: `def run(params): return try_call_tool("hang", timeout="50ms").error`},
		"unanswered":      {source: `def run(params): return [elicit("?", when_unavailable="decline").action, elicit("!")]`},
		"later":           {source: "def run(params):\n  call_tool(\"reply\", {\"later\": True})\n  return elicit(\"who?\")"},
		"join":            {restless: true, source: `def run(params): return try_call_tool("echo", {"r": retry(lambda: parallel(lambda n: call_tool("a") if n else fail("no"), [0]), max_attempts=2, delay=0)})`},
		"long_names":      {source: strings.ReplaceAll("def f(n):\n  return f(n - 1) if n else 1 // 0\ndef run(params): f(90)", "f(", strings.Repeat("f", 50000)+"("), limits: script.Limits{Result: 1000}},
		"libraries":       {source: "load(\"workflow.star\", \"call\")\ndef run(params): return call(\"nothing\", {}, step=\"s\")"},
	} {
		c.name = name
		if name == "libraries" {
			c.source = "load(\"" + legacy.Name + "\", \"call\")\ndef run(params): return call(\"nothing\", {}, step=\"s\")"
		}
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "long") || name == "memory" {
				testmode.NeedThorough(t)
			}
			compare(t, w, c)
		})
	}
}
