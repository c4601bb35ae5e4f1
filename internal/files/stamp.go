package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Stamp identifies a state of a file without reading it. The modification time alone is not
// enough, because clocks have a resolution of milliseconds. The zero Stamp is that of a file
// that does not exist.
type Stamp struct {
	info     fs.FileInfo
	target   string // of symbolic links
	size     int64
	modified time.Time
}

// StampOf returns the present stamp of a file. It must be called before the file is read, so
// that a change during the read is found later. The size and time of a folder do not count,
// because they change with unrelated files.
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

// Exists reports whether the file exists.
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
