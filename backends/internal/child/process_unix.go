//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// setProcessGroup gives the child a group of its own.
func setProcessGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitExit waits until the child has ended. A group that still has members keeps its
// id, so signalling it afterwards reaches nobody else.
func awaitExit(cmd *exec.Cmd) { cmd.Wait() }

func terminateGroup(pgid int) { unix.Kill(-pgid, unix.SIGTERM) }

func killGroup(pgid int) { unix.Kill(-pgid, unix.SIGKILL) }

func guardCommand() *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", guardScript)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}
