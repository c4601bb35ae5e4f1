//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package files

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Lock acquires an exclusive lock between processes and within this one (flock) on a file, which is
// removed by unlock. The lock of a killed process ends with the process; the file that it leaves is
// reused.
func Lock(path string) (unlock func(), err error) {
	for begin := time.Now(); ; {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && isAt(f, path) {
			return func() { os.Remove(path); f.Close() }, nil
		}
		f.Close()
		switch {
		case err == nil: // the previous owner has removed the file since it was opened
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, fmt.Errorf("%s: lock: %w", path, err)
		case time.Since(begin) > lockPatience:
			return nil, fmt.Errorf("%s: held by another process", path)
		}
		<-time.After(lockPoll)
	}
}

// isAt reports whether path is still the file f.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
