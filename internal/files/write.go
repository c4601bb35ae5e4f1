package files

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// WritePrivate writes a file that only its owner reads, of mode 0600. It comes to be by
// rename: nobody sees half of it, and one that was there is replaced as a whole.
func WritePrivate(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	return finish(tmp, path, err)
}

// Replace writes a file for everybody whom the umask lets read it, by rename: nobody sees half of
// it. One that was there is replaced as a whole and hands its mode on.
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

// createBeside makes a new file in the folder of another one, of the mode that the umask leaves.
func createBeside(path string) (*os.File, error) {
	for {
		name := fmt.Sprintf("%s.%d", path, rand.Uint32())
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// finish gives a file that was written its name, or removes it after an error.
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
