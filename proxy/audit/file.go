package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
)

// file is a file that lines are appended to, rotated by size. When another process has moved it
// away, a new one is created.
type file struct {
	path string
	most int64 // bytes; 0: no bound
	keep int

	f    *os.File
	size int64
}

func openFile(path string, most int64, keep int) (*file, error) {
	f := &file{path: path, most: most, keep: keep}
	return f, f.open()
}

// open opens the file, and terminates an incomplete last line of an earlier process.
func (f *file) open() error {
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", f.path) // opening a pipe waits for a reader
	}
	opened, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := opened.Stat()
	if err == nil && info.Size() > 0 {
		var last [1]byte
		if _, err = opened.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
			_, err = opened.Write([]byte{'\n'})
		}
	}
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	f.close()
	f.f, f.size = opened, info.Size()
	return nil
}

// follow opens the file again if it was moved away, or if anyway is set.
func (f *file) follow(anyway bool) error {
	if f.f == nil {
		return f.open()
	}
	if !anyway {
		there, err := os.Stat(f.path)
		if err == nil {
			if ours, err := f.f.Stat(); err == nil && os.SameFile(there, ours) {
				return nil
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil // unknown: keep the file
		}
	}
	return f.open()
}

// Write appends one line, after a rotation if the file would become too large.
func (f *file) Write(line []byte) (int, error) {
	if f.most > 0 && f.size > 0 && f.size+int64(len(line)) > f.most {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := f.f.Write(line)
	f.size += int64(n)
	return n, err
}

// rotate renames FILE.n to FILE.n+1 and the file to FILE.1, and creates a new one.
func (f *file) rotate() error {
	if f.keep <= 0 {
		if err := os.Remove(f.path); err != nil {
			return err
		}
		return f.open()
	}
	for i := f.keep - 1; i >= 1; i-- {
		if err := os.Rename(f.old(i), f.old(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(f.path, f.old(1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.open()
}

func (f *file) old(i int) string { return f.path + "." + strconv.Itoa(i) }

func (f *file) sync() error { return f.f.Sync() }

func (f *file) close() {
	if f.f != nil {
		_ = f.f.Close() // every line was written
		f.f = nil
	}
}
