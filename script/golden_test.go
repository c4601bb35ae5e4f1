package script_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
)

// golden is a journal that a version of the engine has written, with the result of a run over it.
type golden struct {
	Source  string          `json:"source"`
	Header  script.Header   `json:"header"`
	Entries []goldenEntry   `json:"entries"`
	Result  json.RawMessage `json:"result"`
	Stats   script.Stats    `json:"stats"`
}

// goldenEntry has the result as a string: every byte of it is compared.
type goldenEntry struct {
	script.Entry
	Text string `json:"text"`
}

// goldenPrograms are the programs whose journals are kept. New ones may be added; existing ones are never changed.
var goldenPrograms = map[string]string{
	"sequence": `
def run(params):
    return [call_tool("echo", {"n": n})["n"] for n in range(3)] + [str(time.now()), caller()["subject"]]
`,
	"parallel": `
def work(n):
    log("work", n=n)
    if n == 2:
        return try_call_tool("refuse").error
    return [call_tool("echo", {"n": n})["n"], parallel(lambda m: call_tool("echo", {"m": m})["m"], [n, n + 1])]

def run(params):
    return parallel(work, range(4), max_concurrency=2)
`,
	"retry": `
seen = []

def risky(n):
    call_tool("echo", {"n": n})
    return call_tool("down") if len(seen) < 2 else n

def attempt():
    seen.append(1)
    return parallel(risky, [1, 2])

def run(params):
    return [retry(attempt, delay="5s"), len(seen), try_call_tool("lost").kind]
`,
	"waits": `
FORM = {"type": "object", "properties": {"v": {"type": "string"}}}

def run(params):
    began = time.now()
    sleep("2d")
    answer = elicit("sure?", FORM, timeout="5m")
    return [answer.action, answer.content["v"], str(time.now() - began)]
`,
	"pages": `
def run(params):
    return [n for n in pages("numbers", {"n": 5})]
`,
	"nested": `
def run(params):
    return [call_tool("inner", {"n": n}) for n in range(2)] + [try_call_tool("inner", {"n": "x"}).ok]
`,
}

// goldenWorld is the host of the programs.
func goldenWorld(t *testing.T) *scripttest.Host {
	h := &scripttest.Host{Answer: scripttest.Accept(`{"v": "yes"}`)}
	inner := scripttest.Compile(t, `def run(params): return call_tool("echo", {"n": params["n"] + 1})["n"]`)
	h.Tools = map[string]scripttest.Tool{
		"echo": scripttest.Echo, "refuse": scripttest.Fails("no"), "down": scripttest.Down("down"),
		"lost": func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, os.ErrDeadlineExceeded },
		"numbers": func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			if strings.Contains(string(args), "cursor") {
				return scripttest.Structured(`{"items": [3]}`), nil
			}
			return scripttest.Structured(`{"items": [1, 2], "nextCursor": "c"}`), nil
		},
		"inner": func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
			res, err := inner.Run(ctx, script.RunOptions{Args: args, Host: h, Limits: script.DefaultLimits()})
			if err != nil {
				return json.RawMessage(`{"isError": true, "content": [{"type": "text", "text": "no"}]}`), nil
			}
			return scripttest.Structured(string(res.Structured)), nil
		},
	}
	return h
}

// TestJournalsOfEarlierVersionsAreReplayed: a run is resumed over the journal that an earlier version has written,
// with the same result and steps. A change that fails here must raise script.Engine, or must not be made.
func TestJournalsOfEarlierVersionsAreReplayed(t *testing.T) {
	if *update {
		for name, src := range goldenPrograms {
			synctest.Test(t, func(t *testing.T) { writeGolden(t, name, src) })
		}
	}
	files, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(files) < len(goldenPrograms) {
		t.Fatalf("%d files, want %d or more: go test ./script -run Earlier -update writes those that are missing", len(files), len(goldenPrograms))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { replayGolden(t, file) })
	}
}

func writeGolden(t *testing.T, name, src string) {
	file := filepath.Join("testdata/golden", name+"-1.json")
	if _, err := os.Stat(file); err == nil {
		return
	}
	j := &headers{Memory: script.NewJournal()}
	res, err := scripttest.Compile(t, src).Run(t.Context(), script.RunOptions{Host: goldenWorld(t), Journal: j, Limits: script.Limits{Time: script.Duration(1000 * time.Hour)}})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	g := golden{Source: src, Header: j.header, Result: res.Structured, Stats: res.Stats}
	entries, err := j.Memory.Open(t.Context(), g.Header)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text := string(e.Result)
		e.Result = nil
		g.Entries = append(g.Entries, goldenEntry{e, text})
	}
	g.Stats.Replayed, g.Stats.Duration = 0, 0
	data, err := json.MarshalIndent(g, "", "\t")
	if err == nil {
		err = os.WriteFile(file, append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func replayGolden(t *testing.T, file string) {
	var g golden
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	j := script.NewJournal()
	if _, err := j.Open(t.Context(), g.Header); err != nil {
		t.Fatal(err)
	}
	for _, e := range g.Entries {
		e.Result = json.RawMessage(e.Text)
		if err := j.Record(e.Entry); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	nobody := &scripttest.Host{}
	res, err := scripttest.Compile(t, g.Source).Run(t.Context(), script.RunOptions{Host: nobody, Journal: j, Limits: g.Header.Limits})
	if err != nil {
		t.Fatal(err)
	}
	if len(nobody.Calls()) > 0 {
		t.Errorf("the replay made the calls %v", nobody.Calls())
	}
	stats := res.Stats
	stats.Replayed, stats.Duration = 0, 0
	var want any
	var got any
	if json.Unmarshal(g.Result, &want) != nil || json.Unmarshal(res.Structured, &got) != nil {
		t.Fatal("no JSON")
	}
	if a, b := mustJSON(got), mustJSON(want); a != b || stats != g.Stats {
		t.Errorf("got %s with %+v\nwant %s with %+v", a, stats, b, g.Stats)
	}
}

func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}
