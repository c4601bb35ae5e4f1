//go:build !linux

package serve

import "time"

// monotonic has no meaning where there is no systemd.
func monotonic() time.Duration { return 0 }
