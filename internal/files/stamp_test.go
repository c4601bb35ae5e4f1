package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/files"
)

func TestStampSeesEveryKindOfChange(t *testing.T) {
	dir := t.TempDir()
	name, other, link := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "link")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// sameTime gives a file the time of another.
	sameTime := func(name, as string) {
		t.Helper()
		info, err := os.Stat(as)
		if err == nil {
			err = os.Chtimes(name, info.ModTime(), info.ModTime())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write(name, "one")
	must(os.Symlink("a", link))
	for _, step := range []struct {
		what   string
		change func()
	}{
		{"another size", func() { write(name, "two and more"); sameTime(name, dir) }},
		{"a file that replaces it, of the same size and time", func() {
			write(other, "two and less")
			sameTime(other, name)
			must(os.Rename(other, name))
		}},
		{"a link that leads elsewhere", func() {
			write(other, "two and less")
			sameTime(other, name)
			must(os.Remove(link))
			must(os.Symlink("b", link))
		}},
		{"a file that goes", func() { must(os.Remove(other)) }},
	} {
		before := files.StampOf(link)
		if !before.Same(files.StampOf(link)) {
			t.Errorf("before %s: two stamps of one state differ", step.what)
		}
		step.change()
		if before.Same(files.StampOf(link)) {
			t.Errorf("%s is not seen", step.what)
		}
	}
	if gone := files.StampOf(link); gone.Exists() || !gone.Same(files.Stamp{}) {
		t.Error("a file that is gone has a stamp")
	}
}

func TestStampOfAFolderIsNotThatOfItsFiles(t *testing.T) {
	dir := t.TempDir()
	before := files.StampOf(dir)
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !before.IsDir() || !before.Same(files.StampOf(dir)) {
		t.Error("a new file in the folder shows")
	}
}
