//go:build unix && !linux

package httpclient

import "golang.org/x/sys/unix"

// peekAt peeks at the first byte received, without blocking.
func peekAt(fd int) error {
	var b [1]byte
	_, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err
}
