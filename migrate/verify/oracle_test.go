package verify_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/migrate"
	"github.com/vmcp-dev/vmcp/migrate/verify"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/check"
)

var update = flag.Bool("update", false, "rewrite want.star")

// exceptions are the recorded runs from which scripts deliberately differ.
var exceptions = []string{
	"167_elicit_decline_skip_remaining", "169_elicit_timeout_skip_remaining", "229_out_bad_func",
	// As scripted tools: arguments are checked against parameters.
	"003_param_null_explicit", "005_param_required_not_enforced", "017_num_fmt_1em05", "019_num_fmt_3p5",
}

func listed(t *testing.T, dir, exception string) {
	t.Helper()
	if !slices.Contains(exceptions, filepath.Base(dir)) {
		t.Errorf("an exception that is not listed: %s", exception)
	}
}

// TestOracle compares every recorded run of the legacy engine with a run of the exact script.
func TestOracle(t *testing.T) {
	folders, err := filepath.Glob("../testdata/oracle/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no recorded runs: %v", err)
	}
	for _, dir := range folders {
		t.Run(filepath.Base(dir), func(t *testing.T) { checkCase(t, dir) })
	}
}

func checkCase(t *testing.T, dir string) {
	cases, err := verify.Load(filepath.Join(dir, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	c := cases[0]
	c.Composite = true
	s, refused := c.Migrate()
	if s == nil {
		if c.Exception() != "" {
			listed(t, dir, c.Exception())
			return
		}
		for _, d := range verify.Compare(refused, c.Want) {
			t.Errorf("%s\nhave %s\nwant %s", d.What, d.Have, d.Want)
		}
		return
	}
	golden(t, filepath.Join(dir, "want.star"), s.Source)
	for _, p := range check.File(script.File{Name: "want.star", Source: []byte(s.Source)}, check.Options{Builtins: builtins.Table()}) {
		t.Errorf("%s\n%s", p, s.Source)
	}
	compareRun(t, dir, c, s)
	c.Composite = false // as one of scriptedTools
	if s, _ = c.Migrate(); s != nil {
		compareRun(t, dir, c, s)
	}
}

func compareRun(t *testing.T, dir string, c verify.Case, s *migrate.Script) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		have, err := c.RunScript(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		diffs := verify.Compare(have, c.Want)
		if len(diffs) > 0 && c.Exception() != "" {
			listed(t, dir, c.Exception())
			return
		}
		for _, d := range diffs {
			t.Errorf("composite: %v: %s\nhave %s\nwant %s", c.Composite, d.What, d.Have, d.Want)
		}
	})
}

func golden(t *testing.T, file, have string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if have != string(want) {
		t.Errorf("%s\nhave\n%s\nwant\n%s", file, have, want)
	}
}

const (
	misfits  = "arguments of calls are checked against the input schema of the tool, which the recorded tool did not"
	stricter = "a text becomes a boolean or a number only if it is how that is written" // Exception cannot know the text
)

// notClean are the recorded runs from which scripts in the clean style differ, with the reason.
var notClean = map[string]string{
	"003_param_null_explicit":            "arguments are checked against parameters",
	"005_param_required_not_enforced":    "arguments are checked against parameters",
	"017_num_fmt_1em05":                  "arguments are checked against parameters",
	"019_num_fmt_3p5":                    "arguments are checked against parameters",
	"037_text_only_output":               "several texts of a result are one, beside its content",
	"043_coerce_values":                  misfits,
	"049_coerce_bool_true_48":            misfits,
	"051_coerce_bool_on_50":              misfits,
	"053_coerce_int_52":                  misfits,
	"055_coerce_int_54":                  misfits,
	"057_coerce_int_56":                  misfits,
	"059_coerce_int_58":                  misfits,
	"045_coerce_bool_1_44":               stricter,
	"047_coerce_bool_true_46":            stricter,
	"213_outdef_object_212":              "an object prints as JSON, so that it is one again",
	"263_tm_printf_mix":                  "the type of a value has its name in Starlark",
	"285_workflow_timeout_continue_last": "the timeout of a workflow is a limit of the run, which ends the run",
}

// TestOracleClean compares every recorded run with a run of the clean script: where the
// engine completed, the script does, with the same calls and the same result.
func TestOracleClean(t *testing.T) {
	folders, err := filepath.Glob("../testdata/oracle/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no recorded runs: %v", err)
	}
	counts := map[string]int{}
	for _, dir := range folders {
		t.Run(filepath.Base(dir), func(t *testing.T) { checkClean(t, dir, counts) })
	}
	t.Logf("%v", counts)
}

func checkClean(t *testing.T, dir string, counts map[string]int) {
	cases, err := verify.Load(filepath.Join(dir, "case.json"))
	if err != nil {
		t.Fatal(err)
	}
	c := cases[0]
	c.Style = migrate.Clean
	s, have := c.Migrate()
	if s != nil {
		golden(t, filepath.Join(dir, "clean.star"), s.Source)
		for _, p := range check.File(script.File{Name: "clean.star", Source: []byte(s.Source)}, check.Options{Builtins: builtins.Table()}) {
			t.Errorf("%s\n%s", p, s.Source)
		}
		synctest.Test(t, func(t *testing.T) {
			if have, err = c.RunScript(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		})
	}
	diffs := verify.CompareClean(have, c.Want)
	why := notClean[filepath.Base(dir)]
	switch {
	case c.Want.Refused() != "":
		counts["refused by both"]++
	case c.Want.Status != "completed":
		counts["failed in the legacy engine"]++
	case len(diffs) == 0:
		counts["same"]++
	default:
		counts["meant"]++
	}
	if why != "" && len(diffs) == 0 {
		t.Errorf("is listed as different (%s), but is not", why)
	}
	if why == stricter {
		return
	}
	if len(diffs) > 0 && c.Exception() != "" {
		if !slices.Contains(exceptions, filepath.Base(dir)) && c.Exception() != why {
			t.Errorf("is excused because %s, and listed because %q", c.Exception(), why)
		}
		return
	}
	for _, d := range diffs {
		t.Errorf("%s\nhave %s\nwant %s", d.What, d.Have, d.Want)
		if s != nil {
			t.Log(s.Source)
		}
	}
}
