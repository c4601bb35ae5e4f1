package isolate

import "golang.org/x/sys/unix"

const archHere = unix.AUDIT_ARCH_AARCH64

// callsHere are system calls that other machines do not have.
var callsHere []uint32
