package source

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// Library loads files for scripts from texts and folders. Names are relative to the
// library, whoever loads: "helpers.star", "lib/text.star".
type Library struct {
	// Inline are files by name. They go before folders.
	Inline map[string]string
	// Dirs are folders, tried in order. Nothing outside of them is read, symbolic links included.
	Dirs []string
	// Origins say where inline files stand, by name.
	Origins map[string]diag.Origin
}

// maxSource bounds a file that is read; any limit on sources is below, and says so itself.
const maxSource = 16 << 20

// Load finds a file; it is a value for Options.Load.
func (l Library) Load(_, name string) (File, error) {
	if err := checkLoadName(name); err != nil {
		return File{}, err
	}
	if text, ok := l.Inline[name]; ok {
		return File{Name: name, Source: []byte(text), Origin: l.Origins[name]}, nil
	}
	for _, dir := range l.Dirs {
		src, err := files.ReadBelow(dir, name, maxSource)
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

// Dirs returns a loader of files below folders, for Options.Load.
func Dirs(dirs ...string) func(from, name string) (File, error) {
	return Library{Dirs: dirs}.Load
}

// checkLoadName refuses names that are not plain relative paths.
func checkLoadName(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "\\\x00:"), path.IsAbs(name), path.Clean(name) != name, name == "..", strings.HasPrefix(name, "../"):
		return fmt.Errorf("want a relative name below the library, such as %q", "helpers.star")
	case files.IsTest(name):
		return errors.New("a file *_test.star is a test, and no library")
	case !strings.HasSuffix(name, ".star"):
		return fmt.Errorf("want a name that ends with .star")
	}
	return nil
}
