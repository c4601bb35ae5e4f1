package vmcp

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCompatibilityIsComplete: docs/compatibility.md says of each key of the configuration, command and metric whether it
// is stable, and names nothing that is not there.
func TestCompatibilityIsComplete(t *testing.T) {
	page := readPage(t, "docs/compatibility.md")
	keys, commands := graded(t, part(t, page, "Configuration")), graded(t, part(t, page, "Commands"))

	_, table, _ := strings.Cut(readPage(t, "docs/reference/config.md"), "\n## vmcp.yaml\n")
	table, _, _ = strings.Cut(table, "\n## ")
	same(t, "the configuration's key", keys, names(table, "(?m)^\\| `([^`]+)` \\|"))

	reference := readPage(t, "docs/reference/cli.md")
	same(t, "the command", commands, names(reference, `(?m)^## (vmcp.*)$`))
	for _, row := range commands {
		checkCommand(t, row, part(t, reference, row.name))
	}

	for _, start := range names(part(t, page, "Over HTTP"), "`(vmcp_[a-z_]+)`") {
		if !slices.ContainsFunc(metricNames(t), func(m string) bool { return strings.HasPrefix(m, start) }) {
			t.Errorf("docs/compatibility.md: no metric begins with %s", start)
		}
	}
}

// grade is what a row of a table says of one name in it.
type grade struct {
	name  string
	cells []string // behind the names
}

// graded reads the tables of a part of the page: names in code style, then the grade.
func graded(t *testing.T, text string) []grade {
	t.Helper()
	var found []grade
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\| (.*)\\|$").FindAllStringSubmatch(text, -1) {
		cells := strings.Split(row[2], "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !slices.Contains([]string{"stable", "experimental", "deprecated"}, cells[0]) {
			t.Errorf("docs/compatibility.md: %s is %q, want stable, experimental or deprecated", row[1], cells[0])
		}
		for _, name := range names(row[1], "`([^`]+)`") {
			found = append(found, grade{name, cells})
		}
	}
	return found
}

// checkCommand holds a row to what the reference says of the command: whether it writes JSON, and which flags it has.
func checkCommand(t *testing.T, row grade, reference string) {
	t.Helper()
	if len(row.cells) != 3 {
		t.Fatalf("docs/compatibility.md: %s: the row has %d cells behind the name, want 3", row.name, len(row.cells))
	}
	writes := regexp.MustCompile(`(?m)--output string .*\bjson\b`).MatchString(reference)
	if says := row.cells[1] == "json"; says != writes {
		t.Errorf("docs/compatibility.md: %s: JSON is %v, in the reference %v", row.name, says, writes)
	}
	for _, flag := range names(row.cells[2], "`([^`]+)`") {
		if !strings.Contains(reference, " "+flag+" ") && !strings.Contains(reference, " "+flag+"[") {
			t.Errorf("docs/compatibility.md: %s has no flag %s", row.name, flag)
		}
	}
}

// same compares the names on the page with those of a reference.
func same(t *testing.T, what string, rows []grade, want []string) {
	t.Helper()
	var have []string
	for _, row := range rows {
		if slices.Contains(have, row.name) {
			t.Errorf("docs/compatibility.md: %s %s is there twice", what, row.name)
		}
		have = append(have, row.name)
		if !slices.Contains(want, row.name) {
			t.Errorf("docs/compatibility.md: %s %s does not exist", what, row.name)
		}
	}
	for _, name := range want {
		if !slices.Contains(have, name) {
			t.Errorf("docs/compatibility.md: %s %s is in no table: is it stable?", what, name)
		}
	}
	if len(want) < 20 {
		t.Errorf("the reference has %d of %s: the test does not read it all", len(want), what)
	}
}

// metricNames are the names of metrics in the sources.
func metricNames(t *testing.T) []string {
	t.Helper()
	var found []string
	eachSource(t, func(text string) {
		found = append(found, names(text, `"(vmcp_[a-z_]+)"`)...)
	})
	return found
}

// names are what the first group of an expression matches in a text.
func names(text, expression string) []string {
	var found []string
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// part is the text under a heading of the second level.
func part(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut(page, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("no heading %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
