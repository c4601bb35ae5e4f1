package httpclient

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// peekAt peeks at the first byte received, without blocking. unix.Recvfrom would allocate an
// address.
func peekAt(fd int) error {
	var b byte
	_, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b)), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
