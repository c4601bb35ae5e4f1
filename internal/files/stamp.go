package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Stamp tells one state of a file from another without reading it. The time alone does
// not: a clock of some milliseconds shows the same for two files. The zero Stamp is that of
// a file that is not there.
type Stamp struct {
	info     fs.FileInfo
	target   string // where symbolic links lead
	size     int64
	modified time.Time
}

// StampOf is how the file that a path leads to is now. Take it before the file is read: what
// changes meanwhile is then found later. The size and the time of a folder do not count, as
// they change with files that do not matter.
func StampOf(path string) Stamp {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Stamp{}
	}
	info, err := os.Stat(target)
	if err != nil {
		return Stamp{}
	}
	s := Stamp{info: info, target: target}
	if !info.IsDir() {
		s.size, s.modified = info.Size(), info.ModTime()
	}
	return s
}

// Exists reports whether there is a file.
func (s Stamp) Exists() bool { return s.info != nil }

// IsDir reports whether it is a folder.
func (s Stamp) IsDir() bool { return s.info != nil && s.info.IsDir() }

// Same reports whether o is a stamp of the same file in the same state.
func (s Stamp) Same(o Stamp) bool {
	if !s.Exists() || !o.Exists() {
		return s.Exists() == o.Exists()
	}
	return os.SameFile(s.info, o.info) && s.target == o.target && s.size == o.size &&
		s.modified.Equal(o.modified) && s.info.Mode() == o.info.Mode()
}
