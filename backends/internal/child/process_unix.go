//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// setProcessGroup makes cmd start in a new group.
func setProcessGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitExit waits until the child has ended. The id of a group with members is not
// reused, so that it can be signalled afterwards.
func awaitExit(cmd *exec.Cmd) { cmd.Wait() }

func terminateGroup(pgid int) { unix.Kill(-pgid, unix.SIGTERM) }

func killGroup(pgid int) { unix.Kill(-pgid, unix.SIGKILL) }

func guardCommand() *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", guardScript)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}
