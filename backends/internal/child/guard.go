package child

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
)

// guardScript keeps a list of process groups. When its input ends with groups on the
// list, the proxy has been killed, and the groups are killed, too.
const guardScript = `groups=" "
while read -r op id; do
  case $op in
  +) groups="$groups$id " ;;
  -) groups="${groups%% $id *} ${groups#* $id }" ;;
  esac
done
for id in $groups; do kill -KILL "-$id"; done`

// Guard is a small process that ends children when the proxy is killed: the kernel ends
// at most the children themselves, not what they started. It is started with the first
// child. Where there is no shell, children go without.
type Guard struct {
	log *slog.Logger

	mu    sync.Mutex
	cmd   *exec.Cmd // guarded by mu; nil before the first child
	input io.WriteCloser
	off   bool // guarded by mu: it could not be started or is closed
}

// NewGuard returns a guard that reports to log when it cannot be started.
func NewGuard(log *slog.Logger) *Guard { return &Guard{log: log} }

// watch puts a process group on the list.
func (g *Guard) watch(pgid int) { g.send("+", pgid) }

// unwatch takes it off again; its id may soon be somebody else's.
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

// start starts the guard in a process group of its own, so that what ends the proxy
// does not end it. mu is held.
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
		g.log.Warn("no guard for child processes", "err", err)
		g.off = true
		return
	}
	g.cmd, g.input = cmd, input
}

// Close ends the guard. All children have ended.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd != nil {
		g.input.Close()
		g.cmd.Wait()
	}
	g.off = true
}
