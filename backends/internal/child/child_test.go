package child_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/backends/internal/child"
	"github.com/vmcp-dev/vmcp/internal/secret"
)

// start starts a shell script. lines receives the lines of its standard error.
func start(t *testing.T, script string, env map[string]string, redactor *secret.Redactor) (c *child.Child, lines chan string) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	lines = make(chan string, 10)
	guard := child.NewGuard(slog.New(slog.DiscardHandler))
	c, err := child.Start(child.Options{Command: "sh", Args: []string{"-c", script}, Env: env, Guard: guard,
		Secrets: redactor, Stderr: func(line string) { lines <- line }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guard.Close)
	t.Cleanup(c.Close)
	return c, lines
}

func TestLinesGoInAndOut(t *testing.T) {
	c, lines := start(t, `echo "$GREETING" >&2; cat`, map[string]string{"GREETING": "started"}, nil)
	if got := <-lines; got != "started" {
		t.Errorf("standard error has %q", got)
	}
	if n, err := c.Write(context.Background(), []byte("{}\n")); n != 3 || err != nil {
		t.Errorf("Write = %d, %v", n, err)
	}
	if got, err := bufio.NewReader(c).ReadString('\n'); got != "{}\n" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestEnvironmentIsNotInherited(t *testing.T) {
	t.Setenv("VMCP_TEST_TOKEN", "of the proxy")
	c, _ := start(t, `echo "have $VMCP_TEST_TOKEN"`, nil, nil)
	if got, err := io.ReadAll(c); string(got) != "have \n" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestGoneSaysHowTheProcessEnded(t *testing.T) {
	c, _ := start(t, `echo no such file >&2; exit 3`, nil, nil)
	running := errors.New("it runs")
	io.ReadAll(c) // to its end
	err := untilEnded(t, running, func() error { return c.Gone(running) })
	if want := "exit status 3; its standard error ends: no such file"; !strings.Contains(err.Error(), want) {
		t.Errorf("Gone = %v, want %q in it", err, want)
	}
}

func TestWriteToAnEndedProcessSaysWhy(t *testing.T) {
	c, _ := start(t, `echo out of memory >&2; exit 1`, nil, nil)
	io.ReadAll(c) // to its end
	err := untilEnded(t, syscall.EPIPE, func() error {
		_, err := c.Write(context.Background(), []byte("{}\n"))
		return err
	})
	if errors.Is(err, child.ErrPartial) || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("Write: %v", err)
	}
}

// untilEnded calls f until its error is that of an ended process.
func untilEnded(t *testing.T, running error, f func() error) error {
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; {
		if err := f(); err != nil && !errors.Is(err, running) {
			return err
		}
	}
	t.Fatal("the process does not end")
	return nil
}
