package migrate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/verify"
)

// TestTwelveSteps runs the workflows of twelve steps with recorded runs: the exact
// script ends as the recorded run, and the clean one as the exact one.
func TestTwelveSteps(t *testing.T) {
	for _, file := range glob(t, "testdata/cases/*/runs.json") {
		dir := filepath.Dir(file)
		tool, err := os.ReadFile(filepath.Join(dir, "in.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var recorded struct {
			Tools map[string]*verify.Tool
			Runs  []struct {
				Name    string
				Params  json.RawMessage
				Answers []verify.Answer
				Calls   int // questions, too
				Result  any
			}
		}
		if err := json.Unmarshal(data, &recorded); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, r := range recorded.Runs {
			t.Run(filepath.Base(dir)+"/"+r.Name, func(t *testing.T) {
				c := verify.Case{Name: r.Name, Params: r.Params, Tool: tool, Fake: verify.Fake{Tools: recorded.Tools, Elicitations: r.Answers}}
				_, want := runCase(t, c, migrate.Exact)
				var result any
				_ = json.Unmarshal(want.Result.Structured, &result) // nothing is nil
				if diff := cmp.Diff(r.Result, result); diff != "" || want.Status != "completed" {
					t.Fatalf("the exact script: %s -want +have\n%s", want.Result.Text, diff)
				}
				if len(want.Trace) != r.Calls {
					t.Errorf("the exact script made %d calls, want %d", len(want.Trace), r.Calls)
				}
				s, have := runCase(t, c, migrate.Clean)
				for _, d := range verify.CompareClean(have, want) {
					t.Errorf("the clean script: %s\nhave %s\nwant %s\n%s", d.What, d.Have, d.Want, s.Source)
				}
			})
		}
	}
}
