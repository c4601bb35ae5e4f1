package connect

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

// file is a client's configuration as it was read.
type file struct {
	name  string // as the client knows it
	real  string // behind links
	there bool
	data  []byte
}

// errChanged is a file that somebody else has written meanwhile.
var errChanged = errors.New("the file was changed by another program just now; nothing is written")

// read reads a configuration, which need not be there.
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

// behindLinks is where a file is, or would be, behind symbolic links.
func behindLinks(name string) (string, error) {
	const most = 40
	for range most {
		info, err := os.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, nil // reading it says what is wrong
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

// unchanged is an error unless the file is as it was read.
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

// replace writes the file if it is still as it was read. A new one is the user's alone if private.
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

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
