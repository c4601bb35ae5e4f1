//go:build !unix

package files

// nonBlocking is nothing where no file's opening waits for another process.
const nonBlocking = 0
