package operate

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
)

// residentMemory is the resident memory of a process in bytes; 0 if the system does not report it.
func residentMemory(pid int) int64 {
	if runtime.GOOS != "linux" {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0 // the process has ended
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
