//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Lock acquires an exclusive lock between processes and within this one by creating a file that
// must not exist. A file that a killed process has left expires after half a minute.
func Lock(path string) (unlock func(), err error) {
	const stale = 30 * time.Second
	for begin := time.Now(); ; {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			f.Close()
			return func() { os.Remove(path) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > stale {
			os.Remove(path)
			continue
		}
		if time.Since(begin) > lockPatience {
			return nil, fmt.Errorf("%s: held by another process", path)
		}
		<-time.After(lockPoll)
	}
}
