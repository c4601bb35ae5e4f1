//go:build npm

package clients

import (
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/builtins/cases"
)

// saw is the report of Chromium about a page of vmcp trace.
type saw struct {
	ColorScheme, Title, Clicked, Entered, Background string
	Requests, Images, Count                          int
	Complaints                                       []string
	Zoomed                                           float64
	Places                                           []struct {
		Key                       string
		Start, Duration, X, Width float64
	}
}

// recordedRun is a case with n steps whose tools return markup that a page must not interpret.
func recordedRun(n int) *cases.Case {
	hostile, _ := json.Marshal(`</script><img src=x onerror="document.title='owned'"><style>*{display:none}</style>`)
	c := &cases.Case{Version: cases.Version, Tool: "deploy", Recorded: time.Now(), Arguments: json.RawMessage("{}"), Output: hostile, DurationMs: float64(10 * n)}
	for i := range n {
		e := cases.Effect{
			Key: strconv.Itoa(i), Kind: "call", Name: "ci_build", StartMs: float64(10*i) + 0.125, DurationMs: 8.5, Args: json.RawMessage(`{"step":` + strconv.Itoa(i) + `}`),
			Result: json.RawMessage(`{"content":[{"type":"text","text":` + string(hostile) + `}]}`),
		}
		if i%5 == 3 {
			e.Kind, e.Name = "elicit", ""
		}
		c.Effects, c.Order = append(c.Effects, e), append(c.Order, e.Key)
	}
	return c
}

// TestTracePages opens pages from the file system: they send no requests, do not violate their security policy, show a bar for each
// step, and its details after a click and after Enter, whatever the tools have returned.
func TestTracePages(t *testing.T) {
	if world.chromium == "" {
		t.Skip("there is no Chromium")
	}
	for _, n := range []int{10, 2000} {
		c := recordedRun(n)
		dir := t.TempDir()
		file, page := filepath.Join(dir, "case.json"), filepath.Join(dir, "page.html")
		if err := cases.Write(file, c); err != nil {
			t.Fatal(err)
		}
		made := exec.CommandContext(deadline(t), "sh", "-c", `"$0" trace "$1" -o html > "$2"`, program("vmcp"), file, page)
		if out, err := made.CombinedOutput(); err != nil {
			t.Fatalf("vmcp trace: %v\n%s", err, out)
		}
		opened := exec.CommandContext(deadline(t), world.npm.Node(), filepath.Join(world.dir, "page.mjs"), world.chromium, page)
		out, err := opened.Output()
		if err != nil {
			t.Fatalf("page.mjs: %v", err)
		}
		var all []saw
		if err := json.Unmarshal(out, &all); err != nil || len(all) != 2 {
			t.Fatalf("%s: %v", out, err)
		}
		for _, s := range all {
			checkTracePage(t, c, s)
		}
		if all[0].Background == all[1].Background {
			t.Errorf("light and dark are %s", all[0].Background)
		}
	}
}

func checkTracePage(t *testing.T, c *cases.Case, s saw) {
	t.Helper()
	if s.Requests != 1 || len(s.Complaints) > 0 || s.Images > 0 || s.Title != "deploy" {
		t.Errorf("%s: %d requests, %d images, the title %q, complaints %q", s.ColorScheme, s.Requests, s.Images, s.Title, s.Complaints)
	}
	if !strings.Contains(s.Clicked, `"step": 0`) || !strings.Contains(s.Clicked, "onerror=") || !strings.Contains(s.Entered, `"step": `+strconv.Itoa(len(c.Effects)-1)) {
		t.Errorf("%s: a click shows\n%s\nand Enter\n%s", s.ColorScheme, s.Clicked, s.Entered)
	}
	if s.Count != len(c.Effects) || len(s.Places) != s.Count || s.Zoomed < 4000 {
		t.Fatalf("%s: %d bars for %d steps, %v pixels wide", s.ColorScheme, s.Count, len(c.Effects), s.Zoomed)
	}
	for i, p := range s.Places {
		e := c.Effects[i]
		if p.Key != e.Key || p.Start != e.StartMs || p.Duration != e.DurationMs || math.Abs(p.X-e.StartMs) > 1 || math.Abs(p.Width-e.DurationMs) > 1 {
			t.Errorf("%s: step %s from %v for %v ms is %+v", s.ColorScheme, e.Key, e.StartMs, e.DurationMs, p)
		}
	}
}
