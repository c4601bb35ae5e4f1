//go:build unix

package httpclient

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const onUnix = true

// peek sets silent to whether no data is waiting to be read.
func (c *conn) peek(fd uintptr) bool {
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = peekAt(int(fd))
	}
	c.silent = err == unix.EAGAIN
	return true
}

// write writes as much of c.out as the socket accepts now. It uses syscall.Write, for which,
// unlike unix.Write, the race detector knows the order with reads of package net.
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
