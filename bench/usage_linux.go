package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time a process has taken, to the nanosecond: the clock of
// clock_getcpuclockid(3), which the kernel encodes in the number of the process.
func cpuTime(pid int) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|2), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// resident is the memory of a process in bytes.
func resident(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// descriptors is the number of files a process has open.
func descriptors(pid int) int {
	d, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(d)
}
