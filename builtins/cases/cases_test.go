package cases

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
)

func TestDiffNamesThePlace(t *testing.T) {
	for _, tt := range []struct{ want, have, diff string }{
		{`{"cents": 1250}`, `{"cents": "1250"}`, `/cents: 1250 → "1250"`},
		{`{"a": 1, "b": [1, 2]}`, `{"b": [1, 2], "a": 1.0}`, ``},
		{`{"b": [1, 2]}`, `{"b": [2, 1]}`, `/b/0: 1 → 2, and 1 more`},
		{`9007199254740993`, `9007199254740992`, `9007199254740993 → 9007199254740992`},
		{`9007199254740993`, `9007199254740992.0`, `9007199254740993 → 9007199254740992.0`},
		{`{"a/b": {"c~d": 1}}`, `{"a/b": {}}`, `/a~1b/c~0d: 1 → nothing`},
		{`{}`, `{"late": true}`, `/late: nothing → true`},
		{`[1]`, `{"0": 1}`, `[1] → {"0":1}`},
		{`null`, ``, ``},
		{`0`, `-0`, ``},
		{`1`, `1e999999999`, `1 → 1e999999999`},
		{`{"a\u001b[31m": 1}`, `{}`, `/a\x1b[31m: 1 → nothing`},
		{`"` + strings.Repeat("x", 500) + `"`, `1`, `"` + strings.Repeat("x", 98) + `… → 1`},
	} {
		if have := Explain(Diff(json.RawMessage(tt.want), json.RawMessage(tt.have))); have != tt.diff {
			t.Errorf("Diff(%s, %s)\n got %s\nwant %s", tt.want, tt.have, have, tt.diff)
		}
	}
}

func TestABrokenFileIsReportedWithItsPlace(t *testing.T) {
	const good = `{"version": 1, "tool": "refund", "recorded": "2026-11-22T10:00:00Z", "arguments": {}, "effects": [], "order": [], "output": 1, "durationMs": 1}`
	for _, tt := range []struct{ name, text, want string }{
		{"good", good, ""},
		{"empty", " \n", "c.json:1:1: error: the file is empty, want a recorded case [case]"},
		{"no JSON", "{\n  \"version\": 1,,\n}", "c.json:2:16: error: not JSON: invalid character ',' looking for beginning of object key string [case]"},
		{"cut off", good[:60], "c.json:1:60: error: not JSON: unexpected end of JSON input [case]"},
		{"another version", strings.Replace(good, `: 1,`, `: 2,`, 1), "c.json:1:13: error: version: want 1, have 2; another vmcp may have written it [case]"},
		{"no version", `{"tool": "x"}`, "c.json:1:1: error: want version: 1, have none: this is not a recorded case [case]"},
		{"a list", `[1]`, "c.json:1:1: error: want a recorded case, an object, have an array [case]"},
		{"a misspelled member", strings.Replace(good, `"output"`, `"outptu"`, 1), `c.json:1:125: error: unknown member "outptu"; did you mean "output"? [case]`},
		{"twice", strings.Replace(good, `"order": []`, `"output": 2`, 1), `c.json:1:125: error: duplicate member "output" [case]`},
		{"output and failure", strings.Replace(good, `"order": []`, `"failure": {"kind": "tool", "message": "no"}`, 1), "c.json:1:113: error: failure: a run that failed has no output [case]"},
		{"nothing came of it", strings.Replace(good, `"output": 1, `, ``, 1), "c.json:1:1: error: want output or failure, have neither [case]"},
		{"a key that is none", strings.Replace(good, `[]`, `[{"key": "x", "kind": "call"}]`, 1), `c.json:1:99: error: effects[0]: key: want the position of an effect, such as "2.b0.1", have "x" [case]`},
		{"a key twice", strings.Replace(good, `[]`, `[{"key": "0", "kind": "call"}, {"key": "0", "kind": "call"}]`, 1), `c.json:1:129: error: effects[1]: duplicate key "0" [case]`},
		{"a time that is none", strings.Replace(good, `[]`, `[{"key": "0", "kind": "call", "startMs": -1e300}]`, 1), `c.json:1:99: error: effects[0]: startMs and durationMs: want milliseconds from 0, have -1e+300 and 0 [case]`},
		{"order of nothing", strings.Replace(good, `"order": []`, `"order": ["3"]`, 1), `c.json:1:111: error: order: no effect has the key "3" [case]`},
		{"control characters", strings.Replace(good, `"refund"`, `"\u001b[31m\nx", "oops\u0007\n": 1`, 1), `c.json:1:57: error: unknown member "oops\a\n" [case]`},
	} {
		c, err := Parse("c.json", []byte(tt.text))
		switch {
		case tt.want == "" && (err != nil || c.Tool != "refund"):
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "":
			var p diag.Problem
			if !errors.As(err, &p) || p.Error() != tt.want {
				t.Errorf("%s:\n got %v\nwant %s", tt.name, err, tt.want)
			}
		}
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	c := &Case{Version: 1, Tool: "x", Recorded: time.Unix(1, 0).UTC(), Arguments: json.RawMessage(`{"n": 9007199254740993, "f": 1.50, "s": "<\u202e>"}`),
		Effects: []Effect{{Key: "0", Kind: "sleep", Name: "1s"}}, Order: []string{"0"}, Failure: &Failure{"script", "no"}}
	if err := Write(path, c); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if have, want := string(again.Arguments), `{"n":9007199254740993,"f":1.50,"s":"<\u202e>"}`; have != want {
		t.Errorf("arguments %s, want %s", have, want)
	}
	empty, err := (&Case{Version: 1, Tool: "x", Output: json.RawMessage("1"), Arguments: json.RawMessage("{}")}).Encode()
	if _, parsed := Parse("c.json", empty); err != nil || parsed != nil {
		t.Errorf("a case without effects: %v, %v\n%s", err, parsed, empty)
	}
	if again.Failure.Message != "no" || !again.Recorded.Equal(c.Recorded) || again.Effects[0].Name != "1s" {
		t.Errorf("read %+v", again)
	}
}

func TestAFolderKeepsTheNewest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings")
	one, err := NewFolder(dir, 3, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewFolder(dir, 3, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "20260101T000000.000Z-x-00000000.json.123") // of a process that was killed
	for _, name := range []string{left, filepath.Join(dir, "notes.txt")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(left, time.Time{}, time.Now().Add(-2*leftoverAge)); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		c := &Case{Version: 1, Tool: "../a\x1b\n", Recorded: time.Unix(int64(i), 0), Arguments: json.RawMessage("{}"), Output: json.RawMessage("1")}
		f := one
		if i%2 > 0 {
			f = other
		}
		if !f.Put(Pending{Tool: c.Tool, Make: func() (*Case, error) { return c, nil }}) {
			t.Error("not taken")
		}
	}
	one.Close()
	other.Close()
	if other.Put(Pending{}) {
		t.Error("a closed folder takes a case")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != 4 || !strings.HasPrefix(names[2], "19700101T000007.000Z-_a_-") || names[3] != "notes.txt" {
		t.Errorf("the folder has %q", names)
	}
}

func TestARecorderIsBounded(t *testing.T) {
	r := NewRecorder(time.Now())
	big := json.RawMessage(`"` + strings.Repeat("x", 10<<20) + `"`)
	for i := range 10 {
		r.Add(script.Event{Key: string(rune('0' + i)), Kind: "call", Name: "big", Start: time.Now(), Result: big})
	}
	if c := r.Case("x", nil, nil, Ended{Err: errors.New("no"), Time: time.Now()}); c != nil {
		t.Errorf("a case with %d effects", len(c.Effects))
	}
	if n := held.Load(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

func TestKeysAreInTheOrderOfTheScript(t *testing.T) {
	order := []string{"0", "2", "2/0", "2/1.b0.0", "3.b0.0", "3.b0.1", "3.b1.0", "3.b10.0", "4", "10"}
	for i, a := range order {
		for j, b := range order {
			if have := CompareKeys(a, b); (have < 0) != (i < j) || (have > 0) != (i > j) {
				t.Errorf("CompareKeys(%q, %q) = %d", a, b, have)
			}
		}
	}
}
