//go:build !unix

package exec

import (
	"os"
	osexec "os/exec"
)

func inGroup(*osexec.Cmd) {}

func endGroup(*osexec.Cmd) {}

func exitCode(s *os.ProcessState) int { return s.ExitCode() }
