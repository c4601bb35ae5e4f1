package author_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins/suite"
	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
	"github.com/vmcp-dev/vmcp/config"
)

const examples = "../../../../examples/"

// run runs the tests of a configuration, and reports those that do not pass.
func run(t *testing.T, o author.TestOptions) *suite.Report {
	t.Helper()
	r, err := author.RunTests(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range r.Tests {
		for _, p := range one.Problems {
			t.Errorf("%s: %s", one.Name, p.Diag().Error())
		}
	}
	return r
}

func parse(t *testing.T, file, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The tests of the demo's tools pass with what its backends offer, and cover nearly all statements.
func TestDemo(t *testing.T) {
	cfg := parse(t, examples+"demo/files/vmcp.yaml", `
backends:
  - {name: workspace, url: "http://127.0.0.1:1/mcp"}
  - {name: yamlfile, url: "http://127.0.0.1:1/mcp"}
scriptedTools:
  - {name: service_report, description: d, scriptFile: scripts/service_report.star, parameters: {type: object, properties: {min_minutes: {type: integer}}}}
  - {name: scale_service, description: d, scriptFile: scripts/scale_service.star, parameters: {type: object, required: [service, replicas], properties: {replicas: {type: integer}}}}
  - {name: find_todos, description: d, scriptFile: scripts/find_todos.star}
`)
	r := run(t, author.TestOptions{Config: cfg, Lock: examples + "demo/vmcp.lock", Replay: true, Orders: 24, Cover: true})
	if !r.Locked || r.Passed < 8 {
		t.Errorf("%d tests passed, locked: %t", r.Passed, r.Locked)
	}
	if len(r.Coverage.Files) != 3 {
		t.Fatalf("coverage of %d files, want 3", len(r.Coverage.Files))
	}
	for _, f := range r.Coverage.Files {
		if f.Statements.Percent() < 100 || f.Branches.Percent() < 90 {
			t.Errorf("%s: %.0f %% of statements, %.0f %% of branches", f.File, f.Statements.Percent(), f.Branches.Percent())
		}
	}
}

func TestInline(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(examples, "inline", "vmcp.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := parse(t, examples+"inline/vmcp.yaml", string(text))
	r := run(t, author.TestOptions{Config: cfg, Paths: []string{examples + "inline/remember_files_test.star"}, Replay: true, Orders: 24, Cover: true})
	if r.Passed != 2 || r.Locked {
		t.Errorf("%d tests passed, locked: %t", r.Passed, r.Locked)
	}
	if _, branches := r.Coverage.Total(); branches.Percent() < 90 {
		t.Errorf("%.0f %% of branches", branches.Percent())
	}
}

// Several tools in one file: the coverage is that of the file, whichever tool is run.
func TestSeveral(t *testing.T) {
	dir := examples + "several"
	cfg := parse(t, dir+"/vmcp.yaml", "backends: [{name: workspace, url: \"http://127.0.0.1:1/mcp\", prefix: workspace_}]\nscripts: [tools]\n")
	r := run(t, author.TestOptions{Config: cfg, Replay: true, Orders: 24, Cover: true})
	if r.Passed != 5 || len(r.Coverage.Files) != 1 {
		t.Fatalf("%d tests passed, coverage of %d files; want 5 and 1", r.Passed, len(r.Coverage.Files))
	}
	if f := r.Coverage.Files[0]; f.Statements.Percent() < 100 || f.Statements.Total != 17 {
		t.Errorf("%s: %+v of statements, want all 17", f.File, f.Statements)
	}
}
