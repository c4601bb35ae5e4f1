package child

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// setProcessGroup gives the child a group of its own and has the kernel kill it when
// the proxy dies, however it dies.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the child has ended but leaves it as a zombie, so that its
// group id is nobody else's yet.
func awaitExit(cmd *exec.Cmd) {
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

func terminateGroup(pgid int) { unix.Kill(-pgid, unix.SIGTERM) }

func killGroup(pgid int) { unix.Kill(-pgid, unix.SIGKILL) }

func guardCommand() *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", guardScript)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}
