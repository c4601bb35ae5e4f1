package builtins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// TestStar runs testdata/*.star: chunks between lines of "---", each a script without
// its run. A line that must fail ends with ### and the regular expression of the error.
// Time is not real, so that sleeping is free.
func TestStar(t *testing.T) {
	files, err := filepath.Glob("testdata/*.star")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			line := 0
			for chunk := range strings.SplitSeq(string(src), "\n---\n") {
				synctest.Test(t, func(t *testing.T) { runChunk(t, file, strings.Repeat("\n", line)+chunk) })
				line += strings.Count(chunk, "\n") + 2
			}
		})
	}
}

var expectation = regexp.MustCompile(`### ("(?:[^"\\]|\\.)*"|` + "`[^`]*`)")

// runChunk runs one chunk and compares its error with what it announces.
func runChunk(t *testing.T, file, src string) {
	want := map[int]*regexp.Regexp{}
	for i, line := range strings.Split(src, "\n") {
		if m := expectation.FindStringSubmatch(line); m != nil {
			text, err := strconv.Unquote(m[1])
			if err != nil {
				t.Fatalf("%s:%d: %v", file, i+1, err)
			}
			want[i+1] = regexp.MustCompile(text)
		}
	}
	err := execChunk(t, file, src)
	var got *script.Error
	if err != nil && !errors.As(err, &got) {
		t.Fatalf("%s: %v", file, err)
	}
	if got != nil {
		re := want[int(got.Pos.Line)]
		delete(want, int(got.Pos.Line))
		if re == nil || !re.MatchString(got.Msg) {
			t.Errorf("%v\n%s", got, got.Backtrace)
		}
	}
	for line, re := range want {
		t.Errorf("%s:%d: no error matches %q", file, line, re)
	}
}

// execInBubble runs a chunk in virtual time.
func execInBubble(t *testing.T, src string) (err error) {
	synctest.Test(t, func(t *testing.T) { err = execChunk(t, "test.star", src) })
	return err
}

func execChunk(t *testing.T, file, src string) error {
	return execWithin(t, file, src, script.Limits{})
}

func execWithin(t *testing.T, file, src string, l script.Limits) error {
	names := builtins.All()
	names["eq"] = starlark.NewBuiltin("eq", eq)
	p, err := script.Compile(script.File{Name: file, Source: []byte(src + "\ndef run(params): pass\n")}, script.Options{Builtins: names, Inspect: check.NewScan(builtins.Table()).File})
	if err != nil {
		return err
	}
	_, err = p.Run(t.Context(), script.RunOptions{Host: world(), Limits: l})
	return err
}

// eq(x, y) fails unless x == y.
func eq(_ *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x, y starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "x", &x, "y", &y); err != nil {
		return nil, err
	}
	if same, err := starlark.Equal(x, y); err != nil || !same {
		return nil, fmt.Errorf("%v != %v", x, y)
	}
	return starlark.None, nil
}

// world is the host of the scripts in testdata and in the reference.
func world() *scripttest.Host {
	var mu sync.Mutex
	var answers []json.RawMessage
	failures := 0
	h := &scripttest.Host{}
	h.Tools = map[string]scripttest.Tool{
		"echo":    scripttest.Echo,
		"greet":   scripttest.Says("hello"),
		"refuse":  scripttest.Fails("the door is closed"),
		"down":    scripttest.Down("connection refused"),
		"hang":    scripttest.Hangs,
		"invalid": kindOf(builtins.InvalidInput, "id: is required"),
		"denied":  kindOf(builtins.Denied, "not for you"),
		"malformed": func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"structuredContent": [1`), nil
		},
		"numbers": numbers,
		"stuck":   scripttest.Returns(`{"items": [1], "nextCursor": "again"}`),
		// flaky fails as often as its arguments say.
		"flaky": func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			if failures++; failures <= intArg(args, "failures") {
				return nil, &builtins.ToolError{Kind: builtins.Unavailable, Msg: fmt.Sprintf("failure %d", failures)}
			}
			return scripttest.Structured(strconv.Itoa(failures)), nil
		},
		// reply says what the user will answer next.
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
	}
	h.Answer = func(context.Context, script.Question) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(answers) == 0 {
			return nil, builtins.ErrNoElicitation
		}
		a := answers[0]
		answers = answers[1:]
		return a, nil
	}
	return h
}

func kindOf(kind, msg string) scripttest.Tool {
	return func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return nil, &builtins.ToolError{Kind: kind, Msg: msg}
	}
}

// numbers returns the numbers below n in pages of 2.
func numbers(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
	n, from := intArg(args, "n"), intArg(args, "cursor")
	page := struct {
		Items []int  `json:"items"`
		Next  *int   `json:"nextCursor"`
		Text  string `json:"text"`
	}{Items: []int{}}
	for i := from; i < min(n, from+2); i++ {
		page.Items = append(page.Items, i)
	}
	if next := from + 2; next < n {
		page.Next = &next
	}
	raw, err := json.Marshal(page)
	return scripttest.Structured(string(raw)), err
}

func intArg(args json.RawMessage, name string) int {
	var m map[string]json.RawMessage
	var n int
	_ = json.Unmarshal(args, &m)
	_ = json.Unmarshal(m[name], &n)
	return n
}
