package script

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// Library loads files for scripts from texts and folders. Names are relative to the library, not to the loading file:
// "helpers.star", "lib/text.star".
type Library struct {
	// Inline are the texts of files by name. They take precedence over folders.
	Inline map[string]string
	// Dirs are folders, searched in order. No file outside of them is read, by symbolic links either.
	Dirs []string
	// Origins are the positions of inline files in other files, by name.
	Origins map[string]diag.Origin
	// Most bounds a file of a folder, in bytes: a longer one is not read. 0: 16 MB.
	Most int64
}

// maxSource bounds a file that is read, in bytes, where the limits of programs are not known.
const maxSource = 16 << 20

// Load returns the file of that name. It can be used as Options.Load.
func (l Library) Load(_, name string) (File, error) {
	if err := checkLoadName(name); err != nil {
		return File{}, err
	}
	if text, ok := l.Inline[name]; ok {
		return File{Name: name, Source: []byte(text), Origin: l.Origins[name]}, nil
	}
	for _, dir := range l.Dirs {
		src, err := files.ReadBelow(dir, name, cmp.Or(l.Most, maxSource))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return File{}, err
		}
		return File{Name: name, Source: src, Origin: diag.InFile(filepath.Join(dir, filepath.FromSlash(name)))}, nil
	}
	return File{}, fmt.Errorf("no such file in the libraries%s", l.places())
}

func (l Library) places() string {
	if len(l.Dirs) == 0 {
		return ""
	}
	return " (" + strings.Join(l.Dirs, ", ") + ")"
}

// Dirs returns a function for Options.Load that reads files below folders.
func Dirs(dirs ...string) func(from, name string) (File, error) {
	return Library{Dirs: dirs}.Load
}

// checkLoadName refuses names that are not clean relative paths.
func checkLoadName(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "\\\x00:"), path.IsAbs(name), path.Clean(name) != name, name == "..", strings.HasPrefix(name, "../"):
		return fmt.Errorf("want a relative name below the library, such as %q", "helpers.star")
	case files.IsTest(name):
		return errors.New("a file *_test.star is a test, not a library")
	case !strings.HasSuffix(name, ".star"):
		return fmt.Errorf("want a name that ends with .star")
	}
	return nil
}
