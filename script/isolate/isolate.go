// Package isolate runs scripts in processes of their own, for authors who are not trusted
// with the process of the proxy.
//
//	func main() {
//		isolate.ServeIfWorker() // first of all: a worker is this program again
//		...
//	}
//
//	workers, err := isolate.New()
//	res, err := program.Run(ctx, script.RunOptions{Isolation: workers, Host: host})
//
// A worker serves one run and ends with it. It has an empty environment, three pipes and
// nothing else open, no new privileges, bounds on its address space, no core file, and,
// where the kernel has seccomp, no system calls but those that computing needs: it opens
// no file and no socket, and starts no process. What a script does to the world it asks
// the process of the proxy for, which holds the run's journal, ledger and calls; see
// script/isolated.go. docs/isolation.md says what that defends and what not.
package isolate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/script"
)

// MostWorkers bounds the worker processes of one Workers, the spare one included.
const MostWorkers = 256

// startWithin is how long a worker may take until it is ready.
const startWithin = 30 * time.Second

// Workers starts workers, and keeps one ready. It is safe for concurrent use.
type Workers struct {
	codec
	starter starter

	mu     sync.Mutex
	count  int
	spare  *process // ready, or nil
	making bool     // a spare is being started
	closed bool

	starting sync.WaitGroup // workers that have been admitted and are not ready yet
}

var _ script.Isolation = (*Workers)(nil)

// New makes Workers. The error says that this system has none.
func New() (*Workers, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	return &Workers{}, nil
}

// Open returns the channel to a fresh worker for runs with such limits.
func (w *Workers) Open(ctx context.Context, l script.Limits) (script.Channel, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if p := w.takeSpare(); p != nil {
		w.makeSpare()
		if p.bound(int64(l.Memory)) == nil {
			return p, nil
		}
		p.Close() // somebody has ended it, such as the kernel for want of memory
	}
	if err := w.admit(); err != nil {
		return nil, err
	}
	defer w.starting.Done()
	p, err := w.start()
	if err != nil {
		return nil, err
	}
	w.makeSpare()
	if err := p.bound(int64(l.Memory)); err != nil {
		p.Close()
		return nil, &script.WorkerError{Why: err.Error()}
	}
	return p, nil
}

// takeSpare returns the worker that is ready, or nil.
func (w *Workers) takeSpare() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.spare
	w.spare = nil
	return p
}

// admit counts a worker that is about to be started. When it is, or is not, starting is done.
func (w *Workers) admit() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return &script.WorkerError{Why: "the proxy is about to end"}
	case w.count >= MostWorkers:
		return &script.Busy{Why: fmt.Sprintf("%d worker processes of isolated scripts run already", w.count)}
	}
	w.count++
	w.starting.Add(1)
	return nil
}

// start starts a worker, which is counted already.
func (w *Workers) start() (*process, error) {
	p, err := w.starter.start(w.gone)
	if err != nil {
		return nil, &script.WorkerError{Why: err.Error()}
	}
	return p, nil
}

func (w *Workers) gone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count--
}

// makeSpare starts a worker for the next run, if there is none.
func (w *Workers) makeSpare() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.spare != nil || w.making || w.count >= MostWorkers {
		return
	}
	w.making = true
	w.count++
	w.starting.Go(func() {
		p, err := w.start()
		w.mu.Lock()
		w.making = false
		late := w.closed
		if err == nil && !late {
			w.spare = p
		}
		w.mu.Unlock()
		if err == nil && late {
			p.Close()
		}
	})
}

// Running is how many workers there are, the spare one included.
func (w *Workers) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// Close ends the spare worker. Runs end theirs themselves.
func (w *Workers) Close() {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.closed = true
	p := w.spare
	w.spare = nil
	w.mu.Unlock()
	if p != nil {
		p.Close()
	}
	w.starting.Wait()
	w.starter.close()
}
