//go:build !unix

package child

import (
	"os"
	"os/exec"
)

func setProcessGroup(*exec.Cmd) {}

func awaitExit(cmd *exec.Cmd) { cmd.Wait() }

// terminateGroup does nothing: these systems have no SIGTERM.
func terminateGroup(int) {}

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
	}
}

func guardCommand() *exec.Cmd { return nil }
