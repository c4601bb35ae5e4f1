package sqlstore

import (
	"os"

	"golang.org/x/sys/windows"
)

// lock locks a file for this process until it is closed. The byte that is locked is behind the
// mark, which stays readable.
func lock(f *os.File) error {
	at := &windows.Overlapped{Offset: markSize}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
}
