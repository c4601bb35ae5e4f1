package config

import (
	"os"
	"path/filepath"

	"github.com/vmcp-dev/vmcp/config/internal/document"
)

// Absolute makes a path of the file absolute.
func (v *Validator) Absolute(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(v.Dir, name)
}

// Existing makes the path of a file absolute, and checks that it is a regular file.
func (v *Validator) Existing(path string, name *string) {
	if *name == "" {
		return
	}
	given := *name
	*name = v.Absolute(given)
	switch info, err := os.Stat(*name); {
	case err != nil:
		v.Report(path, "no such file %q", given)
	case !info.Mode().IsRegular():
		v.Report(path, "%q is no regular file", given)
	}
}

// Folder checks that a folder exists and returns its absolute path.
func (v *Validator) Folder(path, name string) string {
	abs := v.Absolute(name)
	switch info, err := os.Stat(abs); {
	case err != nil:
		v.Report(path, "no such folder %q", name)
	case !info.IsDir():
		v.Report(path, "%q is a file, want a folder", name)
	}
	return abs
}

// Folders is Folder of each of them.
func (v *Validator) Folders(at string, names []string) {
	for i := range names {
		names[i] = v.Folder(document.IndexPath(at, i), names[i])
	}
}
