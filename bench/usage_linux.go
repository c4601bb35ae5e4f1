package main

import (
	"fmt"
	"os"
	"path/filepath"
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

// switches is the number of voluntary context switches of a process's threads.
func switches(pid int) (n float64) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		_, rest, _ := strings.Cut(string(b), "\nvoluntary_ctxt_switches:")
		line, _, _ := strings.Cut(rest, "\n")
		of, _ := strconv.ParseFloat(strings.TrimSpace(line), 64)
		n += of
	}
	return n
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
