package setup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vmcp-dev/vmcp/config/clients"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// file is the configuration file of a client as it was read.
type file struct {
	name  string // as the client names it
	real  string // with symbolic links resolved
	there bool
	data  []byte
}

// errChanged is returned when another program has changed the file since it was read.
var errChanged = errors.New("the file was changed by another program meanwhile; nothing is written")

// read reads a configuration file, which need not exist.
func read(name string) (*file, error) {
	f := &file{name: name}
	var err error
	if f.real, err = behindLinks(name); err != nil {
		return nil, err
	}
	f.data, err = files.Read(f.real, clients.MaxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.there = true
	return f, nil
}

// behindLinks returns the path of a file, which need not exist, with its symbolic links resolved.
func behindLinks(name string) (string, error) {
	const most = 40
	for range most {
		info, err := os.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, nil // reading it returns the error
		}
		to, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(name), to)
		}
		name = to
	}
	return "", fmt.Errorf("%s: too many symbolic links", name)
}

// unchanged returns an error unless the file is as it was read.
func (f *file) unchanged() error {
	now, err := read(f.name)
	if err != nil {
		return err
	}
	if now.there != f.there || now.real != f.real || !bytes.Equal(now.data, f.data) {
		return errChanged
	}
	return nil
}

// replace writes the file if it is still as it was read. A new file is readable for the user alone if private is set.
func (f *file) replace(data []byte, private bool) error {
	if !f.there {
		if err := os.MkdirAll(filepath.Dir(f.real), 0o755); err != nil {
			return err
		}
	}
	if err := f.unchanged(); err != nil {
		return err
	}
	if !f.there && private {
		return files.WritePrivate(f.real, data)
	}
	return files.Replace(f.real, data)
}

// remove deletes the file if it is still as it was read.
func (f *file) remove() error {
	if err := f.unchanged(); err != nil {
		return err
	}
	return os.Remove(f.real)
}

// missing returns the folders of a path that do not exist, the innermost first.
func missing(folder string) (out []string) {
	for {
		if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
			return out
		}
		out = append(out, folder)
		folder = filepath.Dir(folder)
	}
}

// removeEmpty deletes folders, the innermost first, until one is not empty.
func removeEmpty(folders []string) {
	for _, folder := range folders {
		// What has been replaced since, by a symbolic link for example, is not the folder that connect made.
		if info, err := os.Lstat(folder); err != nil || !info.IsDir() || os.Remove(folder) != nil {
			return
		}
	}
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
