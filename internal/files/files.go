// Package files reads the files that a configuration names, and writes, locks and compares files. It reads regular
// files only, up to a size, and without blocking: a pipe, a device or a huge file in place of a script is an error.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Read reads a file of at most most bytes, following symbolic links.
func Read(path string, most int64) ([]byte, error) {
	return read(path, most, os.Stat, os.OpenFile)
}

// ReadBelow reads a file below a folder. Symbolic links must be relative and stay in the
// folder.
func ReadBelow(dir, name string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := read(name, most, root.Stat, root.OpenFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if _, outside := root.Stat(name); outside != nil && leads(filepath.Join(dir, name)) {
			return nil, fmt.Errorf("a symbolic link leads out of the folder %s", dir)
		}
	}
	return data, err
}

// Cause returns the error of a *fs.PathError without the path, for a text that names the file itself; any
// other error unchanged.
func Cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// leads reports whether a path exists, following symbolic links.
func leads(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

type (
	statFunc func(name string) (fs.FileInfo, error)
	openFunc func(name string, flag int, perm fs.FileMode) (*os.File, error)
)

// read checks the file before it is opened, because opening a device may have effects, and
// again afterwards, because it may have been replaced. nonBlocking keeps the opening of a
// pipe from blocking.
func read(name string, most int64, stat statFunc, open openFunc) ([]byte, error) {
	info, err := stat(name)
	if err == nil {
		err = check(info, most)
	}
	if err != nil {
		return nil, err
	}
	f, err := open(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err == nil {
		err = check(info, most)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = tooLarge(int64(len(data)), most)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func check(info fs.FileInfo, most int64) error {
	switch mode := info.Mode(); {
	case mode.IsRegular() && info.Size() > most:
		return tooLarge(info.Size(), most)
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return notRegular("a folder")
	case mode&fs.ModeNamedPipe != 0:
		return notRegular("a pipe")
	case mode&fs.ModeSocket != 0:
		return notRegular("a socket")
	case mode&fs.ModeDevice != 0:
		return notRegular("a device")
	}
	return notRegular("something else")
}

func notRegular(kind string) error { return fmt.Errorf("want a regular file, this is %s", kind) }

func tooLarge(size, most int64) error {
	return fmt.Errorf("the file has %d bytes or more, want at most %d", size, most)
}
