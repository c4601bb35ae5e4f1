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
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/script"
)

const (
	// mostWorkers bounds the worker processes of one Workers that have a run, and mostSpare those that wait for one.
	mostWorkers = script.MostWorkers
	mostSpare   = 2
	// startWithin bounds how long a worker may take until it is ready.
	startWithin = 30 * time.Second
	// spareAfter is how long after a run has begun the next spare worker is started, if the run has not ended before: a
	// start takes more of the processor than a short run.
	spareAfter = 50 * time.Millisecond
	// patience is how long a run may wait for a backend before its worker may be given to another run.
	patience = 2 * time.Second
)

// Workers starts workers, and keeps spare ones ready. It is safe for concurrent use.
type Workers struct {
	codec
	starter  starter
	patience time.Duration

	mu      sync.Mutex
	count   int             // processes, those that are being started included; guarded by mu, as all below
	spare   []*process      // ready
	making  int             // being started
	waiting []chan<- opened // runs that wait for a worker
	closed  bool

	starting sync.WaitGroup // workers that are not ready yet
}

// opened is what a run that waits for a worker gets.
type opened struct {
	worker *process
	err    error
}

var _ script.Isolation = (*Workers)(nil)

// New makes Workers. The error is that of Available.
func New() (*Workers, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	return &Workers{patience: patience}, nil
}

// Patience implements script.Isolation.
func (w *Workers) Patience() time.Duration { return w.patience }

// Open returns the channel to a new worker, bounded by the memory of l. The error is *script.Busy when there are too
// many.
func (w *Workers) Open(ctx context.Context, l script.Limits) (script.Channel, error) {
	for {
		p, err := w.acquire(ctx)
		if err != nil {
			return nil, err
		}
		if p.bound(int64(l.Memory)) == nil {
			time.AfterFunc(spareAfter, w.makeSpare)
			return p, nil
		}
		p.Close() // it was killed, for example by the kernel for lack of memory
	}
}

// acquire returns a spare worker, or waits for the next one that is ready.
func (w *Workers) acquire(ctx context.Context) (*process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ready := make(chan opened, 1)
	if p, err := w.queue(ready); p != nil || err != nil {
		return p, err
	}
	select {
	case got := <-ready:
		return got.worker, got.err
	case <-ctx.Done():
		w.forget(ready)
		return nil, context.Cause(ctx)
	}
}

// queue returns a spare worker, or makes one for ready.
func (w *Workers) queue(ready chan opened) (*process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.spare); n > 0 {
		p := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return p, nil
	}
	switch {
	case w.closed:
		return nil, &script.WorkerError{Why: "the proxy is shutting down"}
	case w.count-w.making+len(w.waiting) >= mostWorkers+mostSpare:
		return nil, &script.Busy{Why: fmt.Sprintf("%d worker processes of isolated scripts are running, the most that may", mostWorkers)}
	}
	w.waiting = append(w.waiting, ready)
	w.start(len(w.waiting))
	return nil, nil
}

// forget removes a run that does not wait any longer.
func (w *Workers) forget(ready chan opened) {
	w.mu.Lock()
	i := slices.Index(w.waiting, (chan<- opened)(ready))
	if i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
	w.mu.Unlock()
	if i >= 0 {
		return
	}
	if got := <-ready; got.worker != nil {
		got.worker.Close()
	}
}

// makeSpare starts spare workers as far as they are missing.
func (w *Workers) makeSpare() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.start(len(w.waiting) + mostSpare - len(w.spare))
	}
}

// start starts workers until want are being started, or mostSpare: more at once would take the processor from each
// other. The caller holds the mutex.
func (w *Workers) start(want int) {
	for w.making < min(want, mostSpare) {
		w.making++
		w.count++
		w.starting.Go(w.make)
	}
}

// make starts a worker for the run that waits for the longest time, or as a spare one.
func (w *Workers) make() {
	p, err := w.starter.start(w.gone)
	if err != nil {
		err = &script.WorkerError{Why: err.Error()}
	}
	w.mu.Lock()
	w.making--
	late := false
	switch {
	case len(w.waiting) > 0:
		w.waiting[0] <- opened{p, err}
		w.waiting = w.waiting[1:]
	case err == nil && w.closed:
		late = true
	case err == nil:
		w.spare = append(w.spare, p)
	}
	w.start(len(w.waiting))
	w.mu.Unlock()
	if late {
		p.Close()
	}
}

// gone counts a process that has ended.
func (w *Workers) gone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count--
}

// Running returns the number of workers, the spare ones included.
func (w *Workers) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}

// Close ends the spare workers and refuses new ones. Runs end their workers themselves.
func (w *Workers) Close() {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.closed = true
	spare := w.spare
	w.spare = nil
	w.mu.Unlock()
	for _, p := range spare {
		p.Close()
	}
	w.starting.Wait()
	w.starter.close()
}
