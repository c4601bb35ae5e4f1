//go:build !unix

package files

// nonBlocking is 0 on systems where opening a file does not block.
const nonBlocking = 0
