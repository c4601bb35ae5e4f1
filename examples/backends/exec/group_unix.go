//go:build unix

package exec

import (
	"os"
	osexec "os/exec"
	"syscall"
)

// inGroup gives a program a process group of its own, which is killed as a whole.
func inGroup(c *osexec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// endGroup kills what a program has left behind.
func endGroup(c *osexec.Cmd) {
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // there may be nobody any more
	}
}

// exitCode is that of a shell: 128 and the signal for a program that one has ended.
func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}
