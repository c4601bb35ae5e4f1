package postgres

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unsentWithin has the kernel end a connection whose peer does not acknowledge what was sent, as when the network is cut.
func unsentWithin(network, _ string, c syscall.RawConn) (err error) {
	if network == "unix" {
		return nil
	}
	const within = 10 * time.Second
	if refused := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(within.Milliseconds()))
	}); refused != nil {
		return refused
	}
	return err
}
