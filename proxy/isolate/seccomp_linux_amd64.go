package isolate

import "golang.org/x/sys/unix"

const archHere = unix.AUDIT_ARCH_X86_64

// callsHere are system calls that other machines do not have. Those of the x32 interface have other numbers, and fail.
var callsHere = []uint32{unix.SYS_EPOLL_WAIT, unix.SYS_ARCH_PRCTL}
