package backends

import (
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// This part of the package keeps the last lines about each backend: the standard error of its processes, its log message
// notifications, and the lines of our own log about it. They are kept across processes and connections.
//
//	log := lines.New(redactor.Text)
//	log.Add("github", lines.Stderr, "info", "listening")
//	last, at := log.Tail("github", 100)
//
// The number and size of lines are bounded, and secrets are hidden before a line is added.

// Sources of a line.
const (
	Stderr = "stderr" // standard error of a process
	MCP    = "mcp"    // a log message of the protocol
	Own    = "vmcp"   // a line of our own log
)

const (
	maxLines = 2000      // of a backend
	maxBytes = 256 << 10 // of their texts
	maxText  = 8 << 10   // of one; a longer text is cut
)

// Line is one line, with its JSON form.
type Line struct {
	Time    time.Time `json:"time"`
	Backend string    `json:"backend"`
	Stream  string    `json:"stream"` // stderr, mcp or vmcp
	Level   string    `json:"level"`  // of MCP: debug, info, notice, warning, error, critical, alert or emergency
	Text    string    `json:"text"`   // in valid UTF-8
}

// Log has the last lines of several backends. It is safe for concurrent use; a nil *Log keeps nothing.
type Log struct {
	hide func(string) string

	mu      sync.Mutex
	last    uint64           // guarded by mu: the number of the last line of any backend
	rings   map[string]*ring // guarded by mu
	changed chan struct{}    // guarded by mu: closed by the next Add; nil while nobody waits
}

// ring is the lines of one backend.
type ring struct {
	lines []numbered
	bytes int
	gone  uint64 // the number of the last line that was dropped
}

type numbered struct {
	Line
	number uint64
}

// New returns an empty Log; hide replaces secrets in a text.
func New(hide func(string) string) *Log { return &Log{hide: hide, rings: map[string]*ring{}} }

// Add adds a line.
func (l *Log) Add(backend, stream, level, text string) {
	if l == nil {
		return
	}
	n := numbered{Line: Line{Time: time.Now().UTC(), Backend: backend, Stream: stream, Level: level, Text: clean(l.hide(text))}}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rings[backend]
	if r == nil {
		r = &ring{}
		l.rings[backend] = r
	}
	l.last++
	n.number = l.last
	r.add(n)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// clean returns text in valid UTF-8, cut to maxText bytes.
func clean(text string) string {
	text, rest := strings.TrimRight(text, "\r\n"), ""
	if len(text) > maxText {
		end := maxText
		for end > maxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text, rest = strings.Clone(text[:end]), "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD") + rest
}

func (r *ring) add(n numbered) {
	r.lines = append(r.lines, n)
	r.bytes += len(n.Text)
	for len(r.lines) > maxLines || r.bytes > maxBytes {
		r.bytes -= len(r.lines[0].Text)
		r.gone = r.lines[0].number
		r.lines[0] = numbered{} // frees its text
		r.lines = r.lines[1:]
	}
}

// RetainOnly removes the lines of all backends but those with these names.
func (l *Log) RetainOnly(names []string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.rings {
		if !slices.Contains(names, name) {
			delete(l.rings, name)
		}
	}
}

// Tail returns the last n lines of a backend, of all for "", in the order of their time, and the position for Since.
func (l *Log) Tail(backend string, n int) (tail []Line, at uint64) {
	tail, _, at, _ = l.Since(backend, 0)
	return tail[max(0, len(tail)-n):], at
}

// Since returns the lines of a backend, of all for "", after the position at; whether some of them were
// dropped; the position for the next call; and a channel that is closed by the next Add.
func (l *Log) Since(backend string, at uint64) (news []Line, lost bool, next uint64, more <-chan struct{}) {
	if l == nil {
		return nil, false, 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []numbered
	for name, r := range l.rings {
		if backend != "" && name != backend {
			continue
		}
		from, _ := slices.BinarySearchFunc(r.lines, at+1, func(n numbered, number uint64) int {
			if n.number < number {
				return -1
			}
			return 1
		})
		found = append(found, r.lines[from:]...)
		lost = lost || r.gone > at
	}
	slices.SortFunc(found, func(a, b numbered) int { return int(int64(a.number) - int64(b.number)) })
	for _, n := range found {
		news = append(news, n.Line)
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return news, lost, l.last, l.changed
}
