package child

import (
	"bufio"
	"os"
	"strings"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/secret"
)

const (
	maxLogLine = 4 << 10
	maxKept    = 32 << 10 // of stderr, for error messages
)

// stderr is the standard error of a child.
type stderr struct {
	pipe *os.File
	done chan struct{} // closed when it has ended
	tail tail
}

// readStderr reads lines on a goroutine that ends with the pipe, reports them and keeps the last ones.
func readStderr(pipe *os.File, secrets *secret.Redactor, report func(line string)) *stderr {
	s := &stderr{pipe: pipe, done: make(chan struct{})}
	go s.read(secrets, report)
	return s
}

func (s *stderr) read(secrets *secret.Redactor, report func(line string)) {
	defer close(s.done)
	r := bufio.NewReaderSize(s.pipe, maxLogLine)
	rest := "" // of a longer line: the part in which a secret may begin
	for {
		line, err := r.ReadSlice('\n')
		text := rest + string(line)
		if rest = ""; err == bufio.ErrBufferFull {
			text, rest = secrets.Pieces(text)
		}
		if text = strings.TrimSpace(secrets.Text(text)); text != "" {
			s.tail.add(text)
			report(text)
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// tail is the last lines of a child's stderr.
type tail struct {
	mu    sync.Mutex
	lines []string
	size  int
}

func (t *tail) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	t.size += len(line)
	for t.size > maxKept {
		t.size -= len(t.lines[0])
		t.lines = t.lines[1:]
	}
}

// last returns the last lines, for an error message.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return ""
	}
	return "; its standard error ends: " + strings.Join(t.lines[max(0, len(t.lines)-3):], " | ")
}
