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
)

var update = flag.Bool("update", false, "rewrite want.star")

// exceptions are the recorded runs that scripts are not to repeat.
var exceptions = []string{"167_elicit_decline_skip_remaining", "169_elicit_timeout_skip_remaining"}

// TestOracle runs every recorded run of the legacy engine against the script that its
// workflow is migrated to.
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
	s, refused := c.Migrate()
	if s == nil {
		for _, d := range verify.Compare(refused, c.Want) {
			t.Errorf("%s\nhave %s\nwant %s", d.What, d.Have, d.Want)
		}
		return
	}
	golden(t, filepath.Join(dir, "want.star"), s.Source)
	for _, p := range script.Check(script.File{Name: "want.star", Source: []byte(s.Source)}, script.CheckOptions{Builtins: builtins.All()}) {
		t.Errorf("%s\n%s", p, s.Source)
	}
	synctest.Test(t, func(t *testing.T) {
		have, err := c.RunScript(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if diffs := verify.Compare(have, c.Want); c.Exception() != "" {
			if len(diffs) == 0 || !slices.Contains(exceptions, filepath.Base(dir)) {
				t.Errorf("an exception (%s) that is not listed, or that does what was recorded", c.Exception())
			}
			return
		}
		for _, d := range verify.Compare(have, c.Want) {
			t.Errorf("%s\nhave %s\nwant %s", d.What, d.Have, d.Want)
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

// TestOracleClean migrates the workflows of the recorded runs in the clean style. The runs
// themselves differ where they show a quirk; where they do not, calls and results are the same.
func TestOracleClean(t *testing.T) {
	for _, name := range []string{
		"079_skip_with_defaults", "083_skip_last_step_output", "101_retry_success", "119_tool_dot_original",
		"221_out_nested", "093_err_continue_last",
	} {
		t.Run(name, func(t *testing.T) {
			cases, err := verify.Load(filepath.Join("../testdata/oracle", name))
			if err != nil {
				t.Fatal(err)
			}
			c := cases[0]
			def, err := c.Definition()
			if err != nil {
				t.Fatal(err)
			}
			s, err := migrate.Translate(def, migrate.Options{Style: migrate.Clean})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				have, err := c.RunScript(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range verify.Compare(have, c.Want) {
					if d.What != "text" { // keys are in another order
						t.Errorf("%s\nhave %s\nwant %s\n%s", d.What, d.Have, d.Want, s.Source)
					}
				}
			})
		})
	}
}
