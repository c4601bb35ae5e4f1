package rootfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/vmcp-dev/vmcp/examples/backends/internal/rootfile"
)

func openRoot(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestReplaceKeepsPermissions(t *testing.T) {
	root, dir := openRoot(t)
	path := filepath.Join(dir, "key.yaml")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rootfile.Replace(root, "key.yaml", []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("permissions after Replace: got %o, want 600", got)
	}
	if got, _ := os.ReadFile(path); string(got) != "new" {
		t.Errorf("content after Replace: got %q, want %q", got, "new")
	}
}

// A directory cannot be replaced by a file, so the rename fails after all was written.
func TestReplaceThatFailsLeavesNothingBehind(t *testing.T) {
	root, dir := openRoot(t)
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := rootfile.Replace(root, "taken", []byte("new")); err == nil {
		t.Fatal("Replace of a directory: no error")
	}
	if got := names(t, dir); len(got) != 1 || got[0] != "taken" {
		t.Errorf("directory after a failed Replace: %q, want only \"taken\"", got)
	}
}

func TestReplaceRefusesSymlinks(t *testing.T) {
	root, dir := openRoot(t)
	if err := os.WriteFile(filepath.Join(dir, "real"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := rootfile.Replace(root, "link", []byte("new")); err == nil {
		t.Error("Replace of a link: no error")
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "real")); string(got) != "old" {
		t.Errorf("target of the link: got %q, want it untouched", got)
	}
}

func TestReadStopsAtTheLimit(t *testing.T) {
	root, dir := openRoot(t)
	path := filepath.Join(dir, "sparse")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip("file system without sparse files")
	}
	if _, err := rootfile.Read(root, "sparse", 1<<10); !errors.Is(err, rootfile.ErrTooLarge) {
		t.Errorf("Read of 1 TiB with a limit of 1 KiB: got %v, want ErrTooLarge", err)
	}
}
