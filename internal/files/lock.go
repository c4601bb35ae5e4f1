package files

import "time"

const (
	// lockPatience is how long Lock waits for another process, and lockPoll how often it asks.
	lockPatience = 40 * time.Second
	lockPoll     = 10 * time.Millisecond
)
