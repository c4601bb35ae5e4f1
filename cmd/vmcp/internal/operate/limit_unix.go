//go:build unix

package operate

import "golang.org/x/sys/unix"

// openFiles is how many files this process may open; 0 where that is not bounded.
func openFiles() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Max)
}
