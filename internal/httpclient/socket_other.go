//go:build !unix

package httpclient

// onUnix is false where non-blocking access to sockets is not implemented.
const onUnix = false

func (*conn) peek(uintptr) bool  { return true }
func (*conn) write(uintptr) bool { return true }
