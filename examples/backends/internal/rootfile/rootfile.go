// Package rootfile reads and replaces regular files below an os.Root: paths with "..", absolute paths
// and symbolic links cannot leave its directory.
package rootfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrTooLarge is the error of Read for a file over the limit.
var ErrTooLarge = errors.New("file is too large")

// Open opens a regular file for reading. It refuses everything else, and does not block on a named
// pipe.
func Open(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %s, not a file", name, Kind(info.Mode()))
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Kind names the type of a directory entry.
func Kind(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSymlink:
		return "link"
	}
	return "special"
}

// Read returns the whole file, or ErrTooLarge when it has more than limit bytes.
func Read(root *os.Root, name string, limit int64) ([]byte, error) {
	f, _, err := Open(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return data, nil
}

// Replace replaces the content of the file atomically, also when the machine crashes:
// it writes a temporary file beside it, syncs it and renames it over the file, then syncs the
// directory. Permissions are kept; a new file gets 0644 less the umask.
//
// A symbolic link is refused, since the rename would replace the link, not the file
// it points to. Other hard links to the file keep the old content.
func Replace(root *os.Root, name string, data []byte) error {
	info, err := root.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if info != nil && info.Mode().Type() == fs.ModeSymlink {
		return fmt.Errorf("%s is a symbolic link: name the file that it points to", name)
	}
	dir := filepath.Dir(name)
	tmp := filepath.Join(dir, ".tmp-"+rand.Text())
	if err := writeSynced(root, tmp, data, info); err != nil {
		root.Remove(tmp)
		return err
	}
	if err := root.Rename(tmp, name); err != nil {
		root.Remove(tmp)
		return err
	}
	return syncDir(root, dir)
}

// writeSynced creates the file with the permissions of old, which is nil when there is none.
func writeSynced(root *os.Root, name string, data []byte, old fs.FileInfo) (err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if old != nil {
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems cannot sync a directory; the file was renamed all the same.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// Reason is the cause of an error of os, without its operation and path;
// callers add the path as the client wrote it.
func Reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return err
}
