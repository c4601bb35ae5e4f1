package verify_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/verify"
)

// recordedRun is what the legacy engine itself did with a random workflow.
type recordedRun struct {
	Name       string
	IsError    bool
	Text       string
	Structured json.RawMessage
	Trace      []verify.Call
}

// TestRecordedRandomWorkflows: of random workflows that the legacy engine completed, the exact script completes as one of
// scriptedTools, and no clean script completes without a call that the engine made. VMCP_RANDOM_RUNS names a folder with
// more of them.
func TestRecordedRandomWorkflows(t *testing.T) {
	dir := "../testdata/random"
	if more := os.Getenv("VMCP_RANDOM_RUNS"); more != "" {
		dir = more
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.outcomes.jsonl.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows in %s: %v", dir, err)
	}
	counts := map[string]int{}
	for _, file := range files {
		outcomes := map[string]recordedRun{}
		eachLine(t, file, func(line []byte) {
			var r recordedRun
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			outcomes[r.Name] = r
		})
		eachLine(t, strings.Replace(file, ".outcomes", "", 1), func(line []byte) {
			var c verify.Case
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatal(err)
			}
			if r, ok := outcomes[c.Name]; ok {
				checkRandom(t, c, r, counts)
			}
		})
	}
	t.Logf("%v", counts)
}

func eachLine(t *testing.T, file string, f func([]byte)) {
	t.Helper()
	data, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	plain, err := gzip.NewReader(data)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(plain)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		f(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func checkRandom(t *testing.T, c verify.Case, r recordedRun, counts map[string]int) {
	t.Helper()
	c.Want = verify.Outcome{Status: "completed", Trace: r.Trace, Result: verify.Result{IsError: r.IsError, Text: r.Text, Structured: r.Structured}}
	for _, c.Style = range []migrate.Style{migrate.Exact, migrate.Clean} {
		s, _ := c.Migrate()
		if s == nil {
			counts["refused"]++
			return
		}
		have := runRecorded(t, c, s) // in any case, since it has to compile
		what := string(c.Style) + " completed"
		switch failed := have.Status != "completed" || have.Result.IsError; {
		case r.IsError:
			what = "failed in the legacy engine"
		case c.Exception() == skipsRest:
			what = "skip_remaining"
		case failed && c.Style == migrate.Exact && !slices.Contains(raced, c.Name) && c.Exception() == "":
			t.Errorf("%s: fails, and the engine completed: %s", c.Name, have.Result.Text)
		case failed:
			what = string(c.Style) + " failed"
		case missing(c, s, have) != "":
			t.Errorf("%s: %s: completes without a call of %s that the engine made\n%s", c.Name, c.Style, missing(c, s, have), s.Source)
		}
		counts[what]++
	}
}

// skipsRest is the exception of workflows that end early.
const skipsRest = "skip_remaining ran the remaining steps; later versions skip them, and so does the script"

// raced are workflows whose outcome depends on which of two steps the engine begins first, and one with a number that
// equals its default.
var raced = []string{"w00181", "w00786", "w100838"}

func runRecorded(t *testing.T, c verify.Case, s *migrate.Script) (have verify.Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if have, err = c.RunScript(t.Context(), s); err != nil {
			t.Errorf("%s: %s: %v\n%s", c.Name, c.Style, err, s.Source)
		}
	})
	return have
}

// staysText reports whether a note tells of a text that is not converted.
func staysText(s *migrate.Script) bool {
	return slices.ContainsFunc(s.Notes, func(n migrate.Note) bool { return strings.Contains(n.Msg, "stays a text") })
}

// missing returns a tool that was called less often than in the recorded run, "" for none. Calls of a tool that checks its
// arguments are excepted where the recorded ones do not fit, and where a note tells of a text that is not converted.
func missing(c verify.Case, s *migrate.Script, have verify.Outcome) string {
	left := map[string]int{}
	for _, call := range have.Trace {
		left[call.Tool]++
	}
	for _, call := range c.Want.Trace {
		if left[call.Tool]--; left[call.Tool] >= 0 {
			continue
		}
		if tool := c.Fake.Tools[call.Tool]; tool == nil || tool.InputSchema == nil || c.Exception() != misfits && !staysText(s) {
			return call.Kind + " " + call.Tool
		}
	}
	return ""
}
