package child

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// setProcessGroup makes cmd start in a new group, and the kernel kill it when the proxy
// ends, also by SIGKILL.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the child has ended but leaves it as a zombie, so that its
// group id is not reused yet.
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
