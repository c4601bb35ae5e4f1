package files

import "time"

const (
	// lockPatience bounds the wait of Lock, and lockPoll is the interval of its attempts.
	lockPatience = 40 * time.Second
	lockPoll     = 10 * time.Millisecond
)
