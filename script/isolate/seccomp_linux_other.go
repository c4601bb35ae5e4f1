//go:build linux && !amd64 && !arm64

package isolate

import "errors"

// filterCalls does nothing: the numbers of system calls are known for amd64 and arm64.
func filterCalls() error { return errors.New("there is no filter of system calls for this machine") }
