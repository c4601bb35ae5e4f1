package cases_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/script"
)

func compile(t *testing.T, src string) *cases.Tool {
	t.Helper()
	p, err := script.Compile(script.File{Name: "refund.star", Source: []byte(src), Origin: diag.Origin{Pos: diag.Pos{File: "refund.star", Line: 1, Column: 1}, Exact: true}}, script.Options{Builtins: builtins.All()})
	if err != nil {
		t.Fatal(err)
	}
	return &cases.Tool{Name: "refund", Program: p}
}

// record runs a script over a host and returns its case, as it is read from a file.
func record(t *testing.T, src, args string, h *scripttest.Host) *cases.Case {
	t.Helper()
	tool := compile(t, src)
	r := cases.NewRecorder(time.Now())
	res, err := tool.Program.Run(t.Context(), script.RunOptions{Args: json.RawMessage(args), Host: h, Trace: r.Add, Places: true})
	c := r.Case("refund", json.RawMessage(args), tool.Program, cases.Ended{Result: res, Err: err, Time: time.Now()})
	if err := c.Redact(cases.Rules{}); err != nil {
		t.Fatal(err)
	}
	data, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if c, err = cases.Parse("late.json", data); err != nil {
		t.Fatal(err)
	}
	return c
}

func shop() *scripttest.Host {
	return &scripttest.Host{
		Tools: map[string]scripttest.Tool{
			"shop_order":  scripttest.Returns(`{"id": "A1", "total": 12.5, "token": "tok-12345"}`),
			"shop_refund": scripttest.Returns(`{"refund": 1250}`),
			"shop_close":  scripttest.Fails("closed"),
		},
		Answer: func(context.Context, script.Question) (json.RawMessage, error) {
			return json.RawMessage(`{"action": "accept", "content": {"confirm": true}}`), nil
		},
	}
}

const src = `def run(params):
    order = call_tool("shop_order", {"id": params["order"]})
    log("got it")
    began = time.now()
    sleep("1ms")
    answer = elicit("Refund %s?" % order["total"], {"type": "object", "properties": {"confirm": {"type": "boolean"}}})
    r = parallel([
        lambda: call_tool("shop_refund", {"order": order["id"], "cents": int(order["total"] * 100), "auth": order["token"]}),
        lambda: try_call_tool("shop_close", {"id": order["id"]}).kind,
    ])
    return {"refunded": r[0]["refund"], "closed": r[1], "at": began.format()}
`

func TestACaseIsATest(t *testing.T) {
	c := record(t, src, `{"order": "A1"}`, shop())
	if strings.Contains(string(c.Effects[0].Result), "tok-12345") {
		t.Fatalf("not redacted: %s", c.Effects[0].Result)
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"unchanged", "", "", ""},
		{"other messages", `    log("got it")` + "\n", "", ""},
		{"more messages", `    began = `, `    [log("x") for _ in range(12)]` + "\n    began = ", ""},
		{"members in another order", `"order": order["id"], "cents": int(order["total"] * 100)`, `"cents": int(order["total"] * 100), "order": order["id"]`, ""},
		{"another argument", `"cents": int(order["total"] * 100)`, `"cents": str(int(order["total"] * 100))`,
			`refund.star:8:26: error: 5.b0.0: shop_refund: /cents: 1250 → "1250" [case-differs]`},
		{"an argument less", `"id": order["id"]}).kind`, `}).kind`, `refund.star:9:30: error: 5.b1.0: shop_close: /id: "A1" → nothing [case-differs]`},
		{"another tool", `"shop_close"`, `"shop_open"`, `refund.star:9:30: error: 5.b1.0: shop_close → shop_open [case-differs]`},
		{"another question", `Refund %s?`, `Refund %s!`, `refund.star:6:20: error: 4: elicit: /message: "Refund 12.5?" → "Refund 12.5!" [case-differs]`},
		{"a longer sleep", `sleep("1ms")`, `sleep("3h")`, `refund.star:5:10: error: 3: sleep 1ms → sleep 3h0m0s [case-differs]`},
		{"one call more", `    return {`, `    call_tool("shop_refund", {"order": order["id"], "cents": 1})` + "\n    return {",
			`refund.star:11:14: error: 6: shop_refund: was not recorded; the nearest is 5.b0.0: shop_refund: /cents: 1250 → 1, and 1 more [case-differs]`},
		{"one call less", `        lambda: try_call_tool("shop_close", {"id": order["id"]}).kind,`, `        lambda: "tool",`,
			`refund.star:1:5: error: 5.b1.0: shop_close: is no longer performed [case-differs]`},
		{"another output", `"closed": r[1]`, `"closed": r[1] + "!"`, `refund.star:1:5: error: refund: output: /closed: "tool" → "tool!" [case-differs]`},
		{"a failure", `    return {`, `    fail("no")` + "\n    return {", `refund.star:11:9: error: refund: now fails: fail: no [case-differs]`},
	} {
		tool := compile(t, strings.Replace(src, tt.old, tt.new, 1))
		problems, updated := cases.Run(t.Context(), c, tool)
		if have := problems.Error(); have != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, have, tt.want)
		}
		if want := strings.Contains(tt.want, "output:") || strings.Contains(tt.want, "now fails"); (updated != nil) != want {
			t.Errorf("%s: updated %v, want %v", tt.name, updated != nil, want)
		}
		if updated != nil {
			if again, _ := cases.Run(t.Context(), updated, tool); len(again) > 0 {
				t.Errorf("%s: the updated case differs: %v", tt.name, again)
			}
		}
	}
}

func TestAFailedRunIsATest(t *testing.T) {
	const src = `def run(params):
    return call_tool("shop_close")
`
	c := record(t, src, `{}`, shop())
	if problems, _ := cases.Run(t.Context(), c, compile(t, src)); len(problems) > 0 {
		t.Error(problems)
	}
	problems, _ := cases.Run(t.Context(), c, compile(t, strings.Replace(src, "call_tool", "try_call_tool", 1)+"\n"))
	if want := `refund.star:1:5: error: refund: no longer fails: call_tool("shop_close"): closed [case-differs]`; problems.Error() != want {
		// what it returns now cannot be JSON, so it fails in another way
		if !strings.Contains(problems.Error(), "fails with another error") {
			t.Errorf("got %s, want %s", problems, want)
		}
	}
}

// TestBranchesGoOnAsTheyDid: branches get their answers in the recorded order.
func TestBranchesGoOnAsTheyDid(t *testing.T) {
	const src = `def one(n):
    sleep("%dms" % n)
    return call_tool("shop_order", {"n": n})

def run(params):
    order = []
    parallel(lambda n: order.append((one(n), n)[1]), [5, 1, 3, 2, 4])
    return order
`
	c := record(t, src, `{}`, shop())
	for range 20 {
		if problems, _ := cases.Run(t.Context(), c, compile(t, src)); len(problems) > 0 {
			t.Fatal(problems)
		}
	}
	c.Order = nil // also without a recorded order
	cases.Run(t.Context(), c, compile(t, src))
}

func TestFilesOfCases(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a [dir]*")
	folder := filepath.Join(dir, "refund_cases")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	c := record(t, src, `{"order": "A1"}`, shop())
	for name, write := range map[string]func(path string) error{
		"good.json":   func(path string) error { return cases.Write(path, c) },
		"broken.json": func(path string) error { return os.WriteFile(path, []byte(`{"version": 1, "tool"`), 0o600) },
		"other.json": func(path string) error {
			other := *c
			other.Tool = "gone\x1b"
			return cases.Write(path, &other)
		},
		"folder.json": func(path string) error { return os.Mkdir(path, 0o700) },
		"notes.txt":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		if err := write(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := cases.Find(folder); err != nil || len(found) != 4 {
		t.Fatalf("found %q, %v", found, err)
	}
	found, err := cases.Find(dir, dir)
	if err != nil || len(found) != 4 {
		t.Fatalf("found %q, %v", found, err)
	}
	tool := compile(t, src)
	var have []string
	for _, path := range found {
		r := cases.File(t.Context(), path, func(name string) *cases.Tool {
			if name != "refund" {
				return nil
			}
			return tool
		})
		have = append(have, fmt.Sprint(r.Case(), " ", strings.ReplaceAll(r.Problems.Error(), diag.File(folder), "X")))
	}
	want := `broken X/broken.json:1:21: error: not JSON: unexpected end of JSON input [case]
folder X/folder.json:1:1: error: X/folder.json: want a regular file, this is a folder [case]
good 
other X/other.json:1:1: error: no scripted tool "gone\x1b" [case-differs]`
	if text := strings.Join(have, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// TestAConvertedCall: arguments were recorded as they were sent; those that were converted are compared as such.
func TestAConvertedCall(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{"shop_refund": scripttest.Returns(`{}`)}}
	const src = `def run(params): return call_tool("shop_refund", {"order": 7})`
	tool := compile(t, src)
	r := cases.NewRecorder(time.Now())
	res, err := tool.Program.Run(t.Context(), script.RunOptions{Host: h, Trace: r.Add, Places: true,
		Adapt: func(context.Context, script.Effect) (json.RawMessage, string) {
			return json.RawMessage(`{"order":"7"}`), "converted order to string"
		}})
	c := r.Case("refund", nil, tool.Program, cases.Ended{Result: res, Err: err, Time: time.Now()})
	data, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if c, err = cases.Parse("late.json", data); err != nil {
		t.Fatal(err)
	}
	if e := c.Effects[0]; string(e.Args) != `{"order":"7"}` || e.Note != "converted order to string" {
		t.Errorf("recorded %s, %q", e.Args, e.Note)
	}
	if problems, _ := cases.Run(t.Context(), c, tool); len(problems) > 0 {
		t.Error(problems)
	}
	if problems, _ := cases.Run(t.Context(), c, compile(t, strings.Replace(src, "7", "8", 1))); len(problems) != 1 {
		t.Errorf("another number is not reported: %v", problems)
	}
}
