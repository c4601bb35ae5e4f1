package migration_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/migration"
)

// FuzzCheck: arbitrary manifests get problems with positions, and cause no panic.
func FuzzCheck(f *testing.F) {
	for _, pattern := range []string{"testdata/manifests/*.yaml", "../../../../examples/kubernetes/*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			f.Fatalf("no seeds %s: %v", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, p := range migration.Check([]migration.File{{Name: "m.yaml", Text: text}}) {
			if p.Message == "" || p.Code == "" {
				t.Errorf("a problem that says nothing: %+v", p)
			}
		}
	})
}
