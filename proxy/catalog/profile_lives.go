package catalog

import (
	"context"
)

// Lives has a context for each profile of a configuration. It ends when a later configuration has no profile of that
// name.
type Lives map[string]life

type life struct {
	ctx context.Context
	end context.CancelFunc
}

// Lives returns the contexts of n; profiles that before has, too, keep theirs.
func (n Names) Lives(before Lives) Lives {
	all := make(Lives, len(n))
	for _, name := range n {
		l, ok := before[name]
		if !ok {
			l.ctx, l.end = context.WithCancel(context.Background())
		}
		all[name] = l
	}
	return all
}

// Retire ends the contexts of profiles that next does not have.
func (l Lives) Retire(next Lives) {
	for name, one := range l {
		if _, ok := next[name]; !ok {
			one.end()
		}
	}
}

// While is ctx, ended also by the removal of the profile; it has ended if there is no such profile. "" is no profile,
// which is never removed.
func (l Lives) While(ctx context.Context, name string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if name == "" {
		return ctx, cancel
	}
	one, ok := l[name]
	if !ok {
		cancel()
		return ctx, cancel
	}
	stop := context.AfterFunc(one.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
