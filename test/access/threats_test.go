package access

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreatModel: every row of docs/threat-model.md names tests that exist, or says that there is
// no defence.
func TestThreatModel(t *testing.T) {
	page, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)\\w+)`")
	rows := 0
	for text := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(text), " | ")
		if len(cells) != 3 || strings.HasPrefix(text, "| Threat") {
			continue
		}
		rows++
		found := name.FindAllStringSubmatch(cells[2], -1)
		undefended := strings.HasPrefix(cells[2], "not defended")
		if undefended == (len(found) > 0) || undefended != strings.HasPrefix(cells[1], "not defended") {
			t.Errorf("%s: want tests, or twice \"not defended\": %s", cells[0], cells[2])
		}
		for _, m := range found {
			if !defined(t, m[1], m[2]) {
				t.Errorf("%s: there is no %s in %s", cells[0], m[2], m[1])
			}
		}
	}
	if rows < 30 {
		t.Errorf("%d rows were read", rows)
	}
}

// defined reports whether a folder's tests have a function.
func defined(t *testing.T, folder, function string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+function+"(") {
			return true
		}
	}
	return false
}
