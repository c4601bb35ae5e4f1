//go:build unix

package exec

import (
	"os"
	osexec "os/exec"
	"syscall"
)

// inGroup starts a program in a new process group, so that the group can be killed as a whole.
func inGroup(c *osexec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// endGroup kills the processes that a program has started and left running.
func endGroup(c *osexec.Cmd) {
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // the group may be empty
	}
}

// exitCode is the exit code as in a shell: 128 plus the signal for a program that a signal has ended.
func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}
