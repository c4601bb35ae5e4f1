//go:build unix

package httpclient

import "golang.org/x/sys/unix"

// narrowSocket gives a socket small buffers.
func narrowSocket(fd uintptr) {
	unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096)
	unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4096)
}
