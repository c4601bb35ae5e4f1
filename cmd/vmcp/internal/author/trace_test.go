package author_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
)

// traceHostile is what a tool may return.
const traceHostile = `</script><img src=x onerror="document.title='owned'"><!--` + "\u2028\u202e\x1b[31m"

// deploy is a run with every kind of step.
func deploy() *cases.Case {
	quoted, _ := json.Marshal(map[string]any{"text": traceHostile, "n": json.Number("9007199254740993")})
	no := &cases.Failure{Kind: "tool", Message: "the release is locked " + traceHostile}
	return &cases.Case{
		Version: 1, Tool: "deploy", Recorded: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), Arguments: json.RawMessage(`{"environment":"staging"}`),
		Effects: []cases.Effect{
			{Key: "0", Kind: "call", Name: "ci_build", Args: json.RawMessage(`{"ref":"main"}`), Result: quoted, StartMs: 0.4, DurationMs: 612.125, File: "deploy.star", Line: 8},
			{Key: "1", Kind: "log", Name: "built " + traceHostile, StartMs: 612.9, DurationMs: 0.004},
			{Key: "2.b0.0", Kind: "call", Name: "scan_image", StartMs: 613, DurationMs: 402, Result: json.RawMessage("{}")},
			{Key: "2.b0.1", Kind: "call", Name: "scan_report", StartMs: 1016, DurationMs: 120, Result: json.RawMessage("{}")},
			{Key: "2.b1.0", Kind: "call", Name: "flaky_check", StartMs: 613, DurationMs: 90, Failure: no},
			{Key: "2.b1.1", Kind: "retry", StartMs: 703, DurationMs: 200},
			{Key: "2.b1.2", Kind: "call", Name: "flaky_check", StartMs: 903, DurationMs: 80, Failure: no},
			{Key: "2.b1.3", Kind: "retry", StartMs: 983, DurationMs: 300},
			{Key: "2.b1.4", Kind: "call", Name: "flaky_check", StartMs: 1283, DurationMs: 85, Result: json.RawMessage(`{"content":[{"type":"text","text":"fine"}]}`)},
			{Key: "3", Kind: "elicit", StartMs: 1369, DurationMs: 2350, Args: json.RawMessage(`{"message":"Deploy to staging?"}`), Result: json.RawMessage(`{"action":"accept"}`)},
			{Key: "4", Kind: "call", Name: "announce", StartMs: 3720, DurationMs: 250, Result: json.RawMessage("{}")},
			{Key: "4/0", Kind: "call", Name: "chat_post", StartMs: 3725, DurationMs: 110, Result: json.RawMessage("{}")},
			{Key: "4/1", Kind: "sleep", Name: "100ms", StartMs: 3836, DurationMs: 100},
			{Key: "5", Kind: "call", Name: "ci_release", StartMs: 3971, DurationMs: 420, Failure: no, Args: json.RawMessage(`{"environment":"staging"}`)},
		},
		Failure: no, DurationMs: 4392.5,
	}
}

// many is a long run of small steps.
func many(n int) *cases.Case {
	c := &cases.Case{Version: 1, Tool: "many", Arguments: json.RawMessage("{}"), Output: json.RawMessage("1"), DurationMs: float64(n)}
	for i := range n {
		c.Effects = append(c.Effects, cases.Effect{
			Key: strconv.Itoa(i), Kind: "call", Name: "shop_get_order", Args: json.RawMessage(fmt.Sprintf(`{"id":"A%d"}`, i)), StartMs: float64(i) + 0.125, DurationMs: 0.75,
			Result: json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":"{\"id\":\"A%d\",\"status\":\"shipped\",\"total\":12.5}"}],"structuredContent":{"id":"A%d","status":"shipped","total":12.5}}`, i, i)),
			File:   "tools/refund.star", Line: 8,
		})
	}
	return c
}

var bar = regexp.MustCompile(`<rect class="bar [a-z ]+" x="([0-9.]+)%" y="(\d+)" width="([0-9.]+)%" height="\d+" rx="2" data-key="([^"]+)" data-start-ms="([0-9.]+)" data-duration-ms="([0-9.]+)"/>`)

func TestAPageHasABarForEachStep(t *testing.T) {
	for _, c := range []*cases.Case{deploy(), many(2000)} {
		page, err := author.Page(c)
		if err != nil {
			t.Fatal(err)
		}
		if out := os.Getenv("VMCP_TRACE_PAGES"); out != "" {
			if err := os.WriteFile(filepath.Join(out, c.Tool+".html"), page, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if len(page) >= 1<<20 {
			t.Errorf("%s: a page of %d bytes", c.Tool, len(page))
		}
		bars := map[string][]string{}
		for _, m := range bar.FindAllStringSubmatch(string(page), -1) {
			bars[m[4]] = m
		}
		if len(bars) != len(c.Effects) {
			t.Fatalf("%s: %d bars for %d steps", c.Tool, len(bars), len(c.Effects))
		}
		for _, e := range c.Effects {
			m := bars[e.Key]
			x, _ := strconv.ParseFloat(m[1], 64)
			start, _ := strconv.ParseFloat(m[5], 64)
			took, _ := strconv.ParseFloat(m[6], 64)
			if start != e.StartMs || took != e.DurationMs || x*c.DurationMs/100-e.StartMs > 1 || e.StartMs-x*c.DurationMs/100 > 1 {
				t.Errorf("%s: step %s from %v for %v ms is drawn as %v", c.Tool, e.Key, e.StartMs, e.DurationMs, m[1:])
			}
		}
	}
}

func TestWhatToolsSayIsNoMarkup(t *testing.T) {
	c := deploy()
	c.Tool = traceHostile
	c.Effects[0].Name, c.Effects[0].Kind = traceHostile, `"><i>`
	page, err := author.Page(c)
	if err != nil {
		t.Fatal(err)
	}
	s := string(page)
	for _, bad := range []string{"<img", "onerror=\"", "<!--", "<i>", "\u2028", "\u202e", "\x1b", "unsafe-inline", "http:", "https:", "style="} {
		if i := strings.Index(strings.ReplaceAll(s, "http://www.w3.org/2000/svg", ""), bad); i >= 0 {
			t.Errorf("%q is in the page: …%s…", bad, s[max(i-60, 0):min(i+60, len(s))])
		}
	}
	if n := strings.Count(s, "</script>"); n != 2 {
		t.Errorf("%d scripts end", n)
	}
}

func TestAttemptsAreStackedAndBranchesHaveLanes(t *testing.T) {
	page, err := author.Page(deploy())
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // by position
	order := []int{}
	for _, m := range bar.FindAllStringSubmatch(string(page), -1) {
		y, _ := strconv.Atoi(m[2])
		if rows[m[2]] == "" {
			order = append(order, y)
		}
		rows[m[2]] += " " + m[4]
	}
	slices.Sort(order)
	var have []string
	for _, y := range order {
		have = append(have, rows[strconv.Itoa(y)])
	}
	// 1 is a line of the log: a lower bar in the first lane.
	want := []string{" 0 3 4 5", " 1", " 2.b0.0 2.b0.1", " 2.b1.0 2.b1.1", " 2.b1.2 2.b1.3", " 2.b1.4", " 4/0 4/1"}
	if !slices.Equal(have, want) {
		t.Errorf("rows\n%q\nwant\n%q", have, want)
	}
	rest := string(page)
	for _, label := range []string{">deploy<", ">branch 0 of 2<", ">branch 1 of 2<", ">announce<"} {
		_, after, ok := strings.Cut(rest, label)
		if !ok {
			t.Errorf("there is no lane %s behind those before", label)
		}
		rest = after
	}
}

func TestChromesFormat(t *testing.T) {
	data, err := author.Chrome(deploy())
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  float64
			Pid, Tid int
			Args     map[string]any
		}
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	lanes := map[int]string{}
	steps := 0
	for _, e := range f.TraceEvents {
		switch {
		case e.Name == "thread_name":
			lanes[e.Tid] = fmt.Sprint(e.Args["name"])
		case e.Ph == "X":
			steps++
			if e.Args["key"] == "2.b1.2" && (lanes[e.Tid] != "branch 1 of 2" || e.Ts != 903000 || e.Dur != 80000) {
				t.Errorf("%+v in lane %q", e, lanes[e.Tid])
			}
		}
	}
	if steps != 14 || len(lanes) != 4 {
		t.Errorf("%d steps in %d lanes", steps, len(lanes))
	}
}

func TestLinesAreATree(t *testing.T) {
	c := deploy()
	text := strings.Join(author.Lines(c), "\n")
	for _, want := range []string{"deploy  4.39s", "├─ call ci_build  612.1ms", "branch 1", "failed: the release is locked"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
