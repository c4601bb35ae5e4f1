package files

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// WritePrivate writes a file of mode 0600, atomically by a rename.
func WritePrivate(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	return finish(tmp, path, err)
}

// Replace writes a file atomically by a rename. It keeps the mode of an existing file; a new one has
// that of the umask.
func Replace(path string, data []byte) error {
	mode := os.FileMode(0)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	tmp, err := createBeside(path)
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil && mode != 0 {
		err = tmp.Chmod(mode)
	}
	return finish(tmp, path, err)
}

// createBeside creates a new file in the folder of path, with the mode of the umask.
func createBeside(path string) (*os.File, error) {
	for {
		name := fmt.Sprintf("%s.%d", path, rand.Uint32())
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// finish syncs, closes and renames a written file, or removes it after an error.
func finish(tmp *os.File, path string, err error) error {
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
