package vmcp

import (
	"strings"
	"testing"
)

// TestContributingNamesWhatIsThere: CONTRIBUTING.md says where things are added. The files and
// folders that it names exist, and a name in code style is one of a file or folder that the same
// paragraph, step or row names.
func TestContributingNamesWhatIsThere(t *testing.T) {
	_, section, ok := strings.Cut(readPage(t, "CONTRIBUTING.md"), "\n## Where things are added\n")
	if !ok {
		t.Fatal("CONTRIBUTING.md does not say where things are added")
	}
	section, _, _ = strings.Cut(section, "\n## Words\n")
	paths := 0
	for _, span := range codeSpans(section) {
		if isPath(span) {
			paths++
		}
	}
	if names := checkNames(t, "CONTRIBUTING.md", section, noNames); paths < 60 || names < 40 {
		t.Errorf("CONTRIBUTING.md names %d files and %d names: the test does not read them all", paths, names)
	}
}

// noNames are words in code style that are no names of Go.
var noNames = []string{"json", "default", "enum", "omitempty", "crd", "bad", "good", "cobra.Command"}
