package setup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestChangedInBetween: what another program writes between reading and writing is kept, whether the file
// was changed, made, deleted or replaced by a link.
func TestChangedInBetween(t *testing.T) {
	for name, change := range map[string]func(file string) error{
		"another text": func(file string) error { return os.WriteFile(file, []byte("theirs"), 0o600) },
		"deleted":      os.Remove,
		"another link": func(file string) error {
			other := file + ".other"
			return errors.Join(os.WriteFile(other, []byte("mine"), 0o600), os.Remove(file), os.Symlink(other, file))
		},
	} {
		file := filepath.Join(t.TempDir(), "mcp.json")
		if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := read(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(file); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(file)
		if err := f.replace([]byte("ours"), true); !errors.Is(err, errChanged) {
			t.Errorf("%s: replace: %v", name, err)
		}
		if err := f.remove(); !errors.Is(err, errChanged) {
			t.Errorf("%s: remove: %v", name, err)
		}
		if after, _ := os.ReadFile(file); string(after) != string(before) {
			t.Errorf("%s: the file holds %q", name, after)
		}
	}
	file := filepath.Join(t.TempDir(), "mcp.json")
	f, err := read(file)
	if err != nil || f.there {
		t.Fatal(f, err)
	}
	if err := os.WriteFile(file, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.replace([]byte("ours"), true); !errors.Is(err, errChanged) {
		t.Errorf("a file that came: %v", err)
	}
}

// TestLinksInACircle: circular links are an error.
func TestLinksInACircle(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	if err := errors.Join(os.Symlink(a, b), os.Symlink(b, a)); err != nil {
		t.Skip(err)
	}
	if _, err := read(a); err == nil {
		t.Error("a circle of links is a file")
	}
}
