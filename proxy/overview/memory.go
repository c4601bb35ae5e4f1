package overview

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
)

// resident is how much memory a process has, in bytes; 0 where the system does not say.
func resident(pid int) int64 {
	if runtime.GOOS != "linux" {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0 // it has ended
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
