package matrix

import (
	"context"
	"time"
)

// next waits for a notification: the SDK delivers notifications
// from a queue, possibly after the result that followed them.
func next[T any](ctx context.Context, from <-chan T) (T, error) {
	select {
	case v := <-from:
		return v, nil
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// soon is next with a short waitTime, for polling.
func soon[T any](ctx context.Context, from <-chan T) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	return next(ctx, from)
}

func drain[T any](from <-chan T) {
	for {
		select {
		case <-from:
		default:
			return
		}
	}
}
