package format

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/script"
)

// project returns all valid scripts of the project.
func project(t *testing.T) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".star") {
			return err
		}
		data, err := os.ReadFile(path)
		if _, broken := script.Parse(script.File{Name: path, Source: data}, script.Limits{}); broken == nil {
			found[path] = data
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestProject formats every script of the project, including those that migrate writes: Format
// itself compares the trees.
func TestProject(t *testing.T) {
	files := project(t)
	if len(files) < 350 {
		t.Fatalf("%d scripts, want those of the project", len(files))
	}
	changed := 0
	for path, src := range files {
		out := format1(t, path, src)
		if string(out) != string(src) {
			changed++
			if strings.Contains(path, "/examples/") || strings.Contains(path, "/cases/") {
				t.Errorf("%s is not formatted", path)
			}
		}
	}
	t.Logf("%d of %d scripts change", changed, len(files))
}

// format1 formats a text twice: the second time nothing may change.
func format1(t *testing.T, name string, src []byte) []byte {
	t.Helper()
	out, err := Format(script.File{Name: name, Source: src})
	if err != nil {
		t.Errorf("Format(%s): %v\n%s", name, err, src)
		return nil
	}
	if string(out) == string(src) {
		return out
	}
	again, err := Format(script.File{Name: name, Source: out})
	if err != nil || string(again) != string(out) {
		t.Errorf("Format(%s) twice: %v\n%s\nthen\n%s", name, err, out, again)
	}
	return out
}
