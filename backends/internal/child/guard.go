package child

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
)

// guardScript keeps a list of process groups. When its input ends while groups are on
// the list, the proxy was killed, and the script kills the groups.
const guardScript = `groups=" "
while read -r op id; do
  case $op in
  +) groups="$groups$id " ;;
  -) groups="${groups%% $id *} ${groups#* $id }" ;;
  esac
done
for id in $groups; do kill -KILL "-$id"; done`

// Guard is a small process that kills the groups of children when the proxy is killed: the
// kernel kills at most the children themselves, not their descendants. It is started with
// the first child. Without a shell there is none.
type Guard struct {
	log *slog.Logger

	mu    sync.Mutex
	cmd   *exec.Cmd // guarded by mu; nil before the first child
	input io.WriteCloser
	off   bool // guarded by mu: it cannot be started, or is closed
}

// NewGuard returns a guard that logs to log when it cannot be started.
func NewGuard(log *slog.Logger) *Guard { return &Guard{log: log} }

// watch adds a process group to the list.
func (g *Guard) watch(pgid int) { g.send("+", pgid) }

// unwatch removes it; its id may be reused by another process.
func (g *Guard) unwatch(pgid int) { g.send("-", pgid) }

func (g *Guard) send(op string, pgid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd == nil && !g.off {
		g.start()
	}
	if !g.off {
		fmt.Fprintln(g.input, op, pgid)
	}
}

// start starts the guard in a new process group, so that a signal to the proxy's group
// does not reach it. mu is held.
func (g *Guard) start() {
	cmd := guardCommand()
	if cmd == nil {
		g.off = true
		return
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		g.log.Warn("the guard that ends child processes if the proxy is killed was not started", "err", err)
		g.off = true
		return
	}
	g.cmd, g.input = cmd, input
}

// Close ends the guard. All children must have ended.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd != nil {
		g.input.Close()
		g.cmd.Wait()
	}
	g.off = true
}
