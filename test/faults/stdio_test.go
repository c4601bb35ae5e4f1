package faults

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/test/raw"
)

// overStdio is a vmcp serve --stdio with its client, which is not connected yet.
type overStdio struct {
	cmd    *exec.Cmd
	client *raw.StdioClient
	in     io.Closer
	log    io.Reader
}

// serveStdio starts vmcp serve --stdio with a configuration, for a client of that revision.
func serveStdio(t *testing.T, revision, config string, flags ...string) *overStdio {
	t.Helper()
	file := filepath.Join(t.TempDir(), "vmcp.yaml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(vmcp, append([]string{"serve", "--stdio", "--config", file}, flags...)...)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	log, logErr := cmd.StderrPipe()
	for _, err := range []error{inErr, outErr, logErr, cmd.Start()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { in.Close() })
	return &overStdio{cmd: cmd, client: raw.NewStdioClient(revision, out, in), in: in, log: log}
}

// awaitLine waits for a line of the log with a text. The rest of the log is discarded.
func (s *overStdio) awaitLine(text string) {
	for lines := bufio.NewScanner(s.log); lines.Scan() && !strings.Contains(lines.Text(), text); {
	}
	go io.Copy(io.Discard, s.log)
}

// wait waits until the process has ended without a signal.
func (s *overStdio) wait(t *testing.T) {
	t.Helper()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("vmcp serve --stdio: %v", err)
	}
}
