package child

import (
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// process is a started program and its process group.
type process struct {
	cmd   *exec.Cmd
	guard *Guard
	pid   int
	done  chan struct{} // closed when it has ended

	mu    sync.Mutex
	ended bool // guarded by mu: its pid may have been reused
}

// startProcess starts cmd and waits for its exit on a new goroutine, which is locked to its
// thread: on Linux the child is killed when the thread that started it exits.
func startProcess(cmd *exec.Cmd, g *Guard) (*process, error) {
	p := &process{cmd: cmd, guard: g, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	setProcessGroup(p.cmd)
	err := p.cmd.Start()
	if err == nil {
		p.pid = p.cmd.Process.Pid
		p.guard.watch(p.pid)
	}
	started <- err
	if err != nil {
		return
	}
	awaitExit(p.cmd)
	p.mu.Lock()
	p.ended = true
	killGroup(p.pid) // descendants that are left in its group
	p.guard.unwatch(p.pid)
	p.mu.Unlock()
	p.cmd.Wait()
}

// state returns how the process ended; it must have ended.
func (p *process) state() string { return p.cmd.ProcessState.String() }

// end waits for the exit of the process, then sends SIGTERM and waits again, then kills the group.
func (p *process) end(grace time.Duration) {
	if p.leftWithin(grace) {
		return
	}
	p.signal(terminateGroup)
	if p.leftWithin(grace) {
		return
	}
	p.signal(killGroup)
	<-p.done
}

func (p *process) leftWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
		return false
	}
}

// signal signals the group unless the process has ended.
func (p *process) signal(send func(pgid int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		send(p.pid)
	}
}
