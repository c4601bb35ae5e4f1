// Package isolate runs scripts in worker processes, for authors who are not trusted with the process of the proxy.
//
//	func main() {
//		isolate.ServeIfWorker() // first of all: a worker is this program again
//		...
//	}
//
//	workers, err := isolate.New()
//	res, err := program.Run(ctx, script.RunOptions{Isolation: workers, Host: host})
//
// A worker serves one run and exits with it. It has an empty environment, three pipes and no other open files, no new
// privileges, a bounded address space, no core file, and, where the kernel has seccomp, only the system calls that
// computing needs: it opens no file and no socket, and starts no process. For every effect of the script it asks the
// process of the proxy, which has the run's journal, ledger and calls; see script/isolated.go. docs/isolation.md
// describes what this protects from, and what not.
package isolate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/script"
)

// mostWorkers bounds the worker processes of one Workers, the spare one included.
const mostWorkers = 256

// startWithin bounds how long a worker may take until it is ready.
const startWithin = 30 * time.Second

// Workers starts workers, and keeps a spare one ready. It is safe for concurrent use.
type Workers struct {
	codec
	starter starter

	mu     sync.Mutex
	count  int
	spare  *process // ready, or nil
	making bool     // a spare is being started
	closed bool

	starting sync.WaitGroup // workers that were admitted and are not ready yet
}

var _ script.Isolation = (*Workers)(nil)

// New makes Workers. The error is that of Available.
func New() (*Workers, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	return &Workers{}, nil
}

// Open returns the channel to a new worker, bounded by the memory of l. The error is *script.Busy when there are too
// many.
func (w *Workers) Open(ctx context.Context, l script.Limits) (script.Channel, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if p := w.takeSpare(); p != nil {
		w.makeSpare()
		if p.bound(int64(l.Memory)) == nil {
			return p, nil
		}
		p.Close() // it was killed, for example by the kernel for lack of memory
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

// takeSpare returns the spare worker, or nil.
func (w *Workers) takeSpare() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.spare
	w.spare = nil
	return p
}

// admit counts a worker that is about to be started. The caller calls starting.Done when it is ready or has failed.
func (w *Workers) admit() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return &script.WorkerError{Why: "the proxy is shutting down"}
	case w.count >= mostWorkers:
		return &script.Busy{Why: fmt.Sprintf("%d worker processes of isolated scripts are running, the most that may", w.count)}
	}
	w.count++
	w.starting.Add(1)
	return nil
}

// start starts a worker that admit has counted.
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

// makeSpare starts a spare worker, if there is none.
func (w *Workers) makeSpare() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.spare != nil || w.making || w.count >= mostWorkers {
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

// Running returns the number of workers, the spare one included.
func (w *Workers) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// Close ends the spare worker and refuses new ones. Runs end their workers themselves.
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
