//go:build unix

package operate

import "golang.org/x/sys/unix"

// openFiles is the limit of open files of this process; 0 for none.
func openFiles() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Max)
}
