package catalog

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/files"
	"github.com/vmcp-dev/vmcp/script"
)

// This part of the package finds what scripts load: libraries of folders and of the configuration, the texts of a script's bundle,
// and the unsaved texts of an editor.

// Load finds the file that load(name) in the file from means.
type Load func(from, name string) (script.File, error)

// libraries is the source of files for load().
func libraries(cfg *config.Config) script.Library {
	l := script.Library{Inline: map[string]string{}, Origins: map[string]diag.Origin{}, Most: sourceBound(cfg)}
	for i, lib := range cfg.Libraries {
		if lib.Path != "" {
			l.Dirs = append(l.Dirs, lib.Path)
		} else {
			l.Inline[lib.Name] = lib.Source
			l.Origins[lib.Name] = cfg.Origin(fmt.Sprintf("libraries[%d].source", i))
		}
	}
	l.Dirs = append(l.Dirs, cfg.Scripts...)
	return l
}

// sourceBound is how long a file of a script or a library may be, in bytes: no tool may have a longer one.
func sourceBound(cfg *config.Config) int64 {
	most := generalLimits(cfg).Source
	for i := range cfg.ScriptedTools {
		most = max(most, toolLimits(cfg, &cfg.ScriptedTools[i]).Source)
	}
	return int64(most)
}

// Overlay has texts to use in place of those of files, by absolute path.
type Overlay map[string][]byte

// read reads the file name below the folder dir, if it has at most most bytes.
func (o Overlay) read(dir, name string, most int64) ([]byte, error) {
	if abs, err := filepath.Abs(filepath.Join(dir, name)); err == nil && o[abs] != nil {
		return o[abs], nil
	}
	return files.ReadBelow(dir, name, most)
}

// Load is saved, with the texts of the overlay in place of files.
func (o Overlay) Load(saved Load) Load {
	if len(o) == 0 {
		return saved
	}
	return func(from, name string) (script.File, error) {
		f, err := saved(from, name)
		if abs, absErr := filepath.Abs(f.Origin.File); err == nil && absErr == nil && o[abs] != nil {
			f.Source = o[abs]
		}
		return f, err
	}
}

// maxLibraries bounds the files of a folder that are checked although nothing loads them.
const maxLibraries = 5000

// below lists the files below a folder that scripts can load, and their tests.
func below(dir string) (names []string) {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil: // reported when it is loaded
			return nil
		case strings.HasPrefix(d.Name(), ".") && name != dir:
			if d.IsDir() {
				return fs.SkipDir
			}
		case len(names) == maxLibraries:
			return fs.SkipAll
		case strings.HasSuffix(name, ".star") && !d.IsDir():
			if rel, err := filepath.Rel(dir, name); err == nil {
				names = append(names, rel)
			}
		}
		return nil
	})
	return names
}
