package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/suite"
	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

// problemsOf are the problems of one file, a line each.
func problemsOf(src check.Source, o check.Options) string {
	var lines []string
	for _, p := range check.Check([]check.Source{src}, o).Problems() {
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

// TestWaitsAreOfTheLifetime: a run is not awake while it sleeps, so that only its lifetime bounds that.
func TestWaitsAreOfTheLifetime(t *testing.T) {
	for sleep, want := range map[string]string{
		`"2d"`:  ``,
		`"30d"`: ``,
		`"31d"`: `a.star:2:11: warning: waits 744h, a run of the tool ends after 720h (lifetime) [limit]`,
	} {
		src := check.Source{File: script.File{Name: "a.star", Source: []byte("def run(params):\n    sleep(" + sleep + ")\n    return 1\n")}}
		src.Limits.Time = limits.Duration(5 * time.Second)
		if got := problemsOf(src, check.Options{Builtins: builtins.Table()}); got != want {
			t.Errorf("sleep(%s)\n got %s\nwant %s", sleep, got, want)
		}
	}
}

// TestTimeoutsOfTools are durations as everywhere, days too.
func TestTimeoutsOfTools(t *testing.T) {
	for timeout, want := range map[string]string{
		"1h30m": "", "2d": "", "1d12h": "",
		"5day":      `a.star:1:50: error: "5day" is not a duration; want for example "1h30m" or "2d" [tool-declaration]`,
		"an hour":   `a.star:1:50: error: "an hour" is not a duration; want for example "1h30m" or "2d" [tool-declaration]`,
		"2d1d":      `a.star:1:50: error: "2d1d" is not a duration; want for example "1h30m" or "2d" [tool-declaration]`,
		"99999999d": `a.star:1:50: error: "99999999d" is not a duration; want for example "1h30m" or "2d" [tool-declaration]`,
		"":          `a.star:1:50: error: "" is not a duration; want for example "1h30m" or "2d" [tool-declaration]`,
	} {
		src := check.Source{File: script.File{Name: "a.star", Source: []byte(`tool(name = "abc", description = "A.", timeout = "` + timeout + "\")\n\ndef run(params):\n    return 1\n")}}
		if got := problemsOf(src, check.Options{Builtins: builtins.Table()}); got != want {
			t.Errorf("timeout %q\n got %s\nwant %s", timeout, got, want)
		}
	}
}

// TestWhatTestsCallIsChecked: files of tests are held to the rows of testing.
func TestWhatTestsCallIsChecked(t *testing.T) {
	tools := map[string]check.Tool{"refund": {Script: true}, "shop_get_order": {}}
	for _, tt := range []struct{ text, want string }{
		{`testing.tool("shop_get_order", returns = {}, takes = "2d")`, ``},
		{`testing.tool("shop_get_order", fails = "gone", kind = "not_found", takes = 3)`, ``},
		{`testing.contains(testing.run("refund", {}).error, "A1")`, ``},
		{`testing.eq(testing.calls(), testing.calls("refund")[0]["x"])`, ``},
		{`testing.fails(lambda: testing.clock("x"))`, ``},
		{`testing.tool("shop_getorder", returns = 1)`, `a_test.star:2:18: error: no tool "shop_getorder"; did you mean shop_get_order? [tool-unknown]`},
		{`testing.tool("refund", fails = "x", kind = "lost")`, `a_test.star:2:48: error: testing.tool: there is no kind "lost"; kind is one of invalid_input, invalid_output, tool, timeout, unavailable, denied, not_found, unknown [builtin-value]`},
		{`testing.tool("refund", returns = 1, takes = "2day")`, `a_test.star:2:49: error: testing.tool: "2day" is not a duration; want for example "1h30m" or "2d" [builtin-value]`},
		{`testing.run("refunt")`, `a_test.star:2:17: error: no tool "refunt"; did you mean refund? [tool-unknown]`},
		{`testing.eq(testing.run("refund").outptu, 1)`, `a_test.star:2:38: error: the result of testing.run has ok, output, content, error, kind; no outptu; did you mean output? [attribute]`},
		{`testing.equal(1, 1)`, `a_test.star:2:13: error: testing has no equal; it has answer, calls, clock, contains, eq, fails, is_false, is_true, logs, ne, now, questions, run, skip, tool [module-member]`},
		{`testing.eq(1)`, `a_test.star:2:5: error: testing.eq needs want [call-arity]`},
		{`testing.answer("x", acton = "accept")`, `a_test.star:2:25: error: testing.answer has no parameter acton; did you mean action? [call-keyword]`},
		{`testing.fails(testing.run("refund"), "x")`, `a_test.star:2:19: error: testing.fails wants a function, this is a result: the call is made before; write lambda: ... [builtin-value]`},
	} {
		src := check.Source{Kind: check.TestFile, File: script.File{Name: "a_test.star", Source: []byte("def test_a():\n    " + tt.text + "\n")}}
		if got := problemsOf(src, check.Options{Builtins: builtins.Table(), TestBuiltins: suite.Table(), Tools: tools}); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.text, got, tt.want)
		}
	}
}
