package matrix

import (
	"context"
	"time"
)

// next waits for what the SDK hands over in its own time: it delivers notifications
// from a queue, after the result that they came before.
func next[T any](ctx context.Context, from <-chan T) (T, error) {
	select {
	case v := <-from:
		return v, nil
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// soon is next with little waitTime, for what is asked for again.
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
