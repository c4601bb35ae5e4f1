package script

import (
	"context"
)

// small is the size of answers, in bytes, that are read without asking for Room.
const small = 64 << 10

// compute waits until the run of b, which has the turn, has a slot.
func (b *branch) compute() { b.run.pool.Compute(b.ctx, &b.run.seat) }

// grow waits until the pool has room for what the request was charged.
func (r *Run) grow() error {
	if r.pool == nil {
		return nil
	}
	b, q := r.turns.now, r.request()
	err := q.Tenant.Grow(b.ctx, &r.seat, q.Charged())
	if err != nil && err == b.ctx.Err() {
		return ended(b.ctx)
	}
	return err
}

// Room waits until n bytes of an answer may be read by the effect that ctx belongs to. It returns how many may be:
// fewer than n where the request may never read so many at once. NoteRead takes the number that was read in the end.
func Room(ctx context.Context, n int64) (int64, error) {
	b := callerOf(ctx)
	if b == nil {
		return n, nil
	}
	q := b.run.request()
	n = min(n, q.MostReading())
	if q.Tenant == nil || n <= small {
		return n, nil
	}
	if err := q.Tenant.Read(ctx, n, q.MostReading()); err != nil {
		return 0, err
	}
	b.room += n
	return n, nil
}

// keepRoom returns all but n bytes of the room that b has.
func (b *branch) keepRoom(n int64) {
	if back := b.room - n; back > 0 {
		b.room -= back
		b.run.request().Tenant.HasRead(back)
	}
}
