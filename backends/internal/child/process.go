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
	ended bool // guarded by mu: its pid may belong to somebody else
}

// startProcess starts cmd and waits for its end on a goroutine of its own. That
// goroutine keeps its thread: on Linux the child is killed when the thread that started
// it dies, which must not be before the proxy does.
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
	killGroup(p.pid) // whatever it left behind in its group
	p.guard.unwatch(p.pid)
	p.mu.Unlock()
	p.cmd.Wait()
}

// state says how the process ended. It must have.
func (p *process) state() string { return p.cmd.ProcessState.String() }

// end waits for the process to leave, asks it to, and makes it.
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
