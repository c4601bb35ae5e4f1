//go:build unix

package yamlfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock waits until no other process changes files below the same root. The lock is on
// the directory itself, so that there is no lock file, and is released when the process ends.
func lock(root *os.Root) (unlock func(), err error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		d.Close()
		return nil, err
	}
	return func() { d.Close() }, nil
}
