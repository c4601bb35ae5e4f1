//go:build linux && (amd64 || arm64)

package isolate

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The filter of system calls allows what the Go runtime needs to compute, to collect garbage and to use pipes that are
// open. All else fails with EPERM: files, sockets, processes, signals to other processes, executable memory.

// calls are the system calls that are allowed with any arguments.
var calls = append([]uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_PREAD64,
	unix.SYS_FUTEX, unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETPID, unix.SYS_GETTID,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_RESTART_SYSCALL, unix.SYS_GETRANDOM,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_MEMBARRIER,
}, callsHere...)

// Offsets in the data of a filter: struct seccomp_data, on a little-endian machine.
const (
	atCall = 0
	atArch = 4
)

func atArgument(i int) uint32 { return uint32(16 + 8*i) }

// filter is a BPF program under construction.
type filter []unix.SockFilter

func (f *filter) add(code uint16, k uint32, yes, no uint8) {
	*f = append(*f, unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no})
}

func (f *filter) load(at uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at, 0, 0) }
func (f *filter) end(action uint32) {
	f.add(unix.BPF_RET|unix.BPF_K, action, 0, 0)
}

const (
	allow  = unix.SECCOMP_RET_ALLOW
	kill   = unix.SECCOMP_RET_KILL_PROCESS
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// when adds a block for one system call. The accumulator has the number of the call before and after it, unless the
// block returns.
func (f *filter) when(call uint32, block func(*filter)) {
	var inner filter
	block(&inner)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, call, 0, uint8(len(inner)))
	*f = append(*f, inner...)
}

// filterFor returns the filter of the process pid.
func filterFor(pid int) filter {
	var f filter
	f.load(atArch)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, archHere, 1, 0)
	f.end(kill)
	f.load(atCall)
	for _, call := range calls {
		f.when(call, func(f *filter) { f.end(allow) })
	}
	// memory, but not executable
	for _, call := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT} {
		f.when(call, func(f *filter) {
			f.load(atArgument(2))
			f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, unix.PROT_EXEC, 1, 0)
			f.end(allow)
			f.end(refuse)
		})
	}
	// threads, but no processes
	f.when(unix.SYS_CLONE, func(f *filter) {
		f.load(atArgument(0))
		f.add(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, unix.CLONE_THREAD, 0, 1)
		f.end(allow)
		f.end(refuse)
	})
	f.when(unix.SYS_CLONE3, func(f *filter) { f.end(absent) }) // a filter cannot see its flags
	// signals to itself
	f.when(unix.SYS_TGKILL, func(f *filter) {
		f.load(atArgument(0))
		f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(pid), 0, 1)
		f.end(allow)
		f.end(refuse)
	})
	// names of memory areas
	f.when(unix.SYS_PRCTL, func(f *filter) {
		f.load(atArgument(0))
		f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.PR_SET_VMA, 0, 1)
		f.end(allow)
		f.end(refuse)
	})
	f.end(refuse)
	return f
}

// filterCalls installs the filter for all threads.
func filterCalls() error {
	f := filterFor(os.Getpid())
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("filter of system calls: %w", errno)
	}
	return nil
}
