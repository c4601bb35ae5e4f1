//go:build unix

package httpclient

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const onUnix = true

// peek looks whether anything has come, without taking it.
func (c *conn) peek(fd uintptr) bool {
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = peekAt(int(fd))
	}
	c.silent = err == unix.EAGAIN
	return true
}

// write writes c.out as far as the socket takes it now. The race detector knows that what
// syscall.Write has written comes before what net reads; of unix.Write it does not.
func (c *conn) write(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), c.out)
		switch {
		case err == syscall.EINTR:
			continue
		case err == nil:
			c.wrote = n
		case err != syscall.EAGAIN:
			c.wroteErr = os.NewSyscallError("write", err)
		}
		return true
	}
}
