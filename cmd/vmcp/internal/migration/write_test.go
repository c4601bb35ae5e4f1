package migration

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTakesBackWhatItWrote: if one file cannot be written, no file and no folder is left.
func TestTakesBackWhatItWrote(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("kept", 0o755); err != nil {
		t.Fatal(err)
	}
	m := &Migration{Write: filepath.Join("kept", "new", "scripts")}
	err := m.create([]*newFile{
		{name: filepath.Join(m.Write, "a.star"), data: []byte("a")},
		{name: filepath.Join("nowhere", "b.star"), data: []byte("b")},
	})
	if err == nil {
		t.Error("no error")
	}
	if entries, err := os.ReadDir("kept"); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
