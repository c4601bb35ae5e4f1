package cases

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxQueue bounds the cases that wait to be written; further ones are dropped.
	maxQueue = 64
	// leftoverAge is the age from which on an unfinished file of another process is removed.
	leftoverAge = time.Hour
)

// A Folder writes the cases of a server into a folder, in the background, and keeps the newest. Several processes may
// write into one. Make one with NewFolder.
type Folder struct {
	dir  string
	keep int
	log  *slog.Logger

	queue chan Pending
	done  chan struct{}

	mu     sync.Mutex
	closed bool // queue is closed
}

// Pending is a case whose making is left to the goroutine that writes it.
type Pending struct {
	// Make makes the case; it returns nil for one that exceeded the size of a recording.
	Make func() (*Case, error)
	// Tool is the name of the tool.
	Tool string
}

// NewFolder makes the folder and starts the goroutine that writes into it. The newest keep files remain.
func NewFolder(dir string, keep int, log *slog.Logger) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, keep: keep, log: log, queue: make(chan Pending, maxQueue), done: make(chan struct{})}
	go f.work()
	return f, nil
}

// Put enqueues a case to be written. It does not wait; it returns false when the queue is full.
func (f *Folder) Put(p Pending) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	select {
	case f.queue <- p:
		return true
	default:
		return false
	}
}

// Close writes what is in the queue, and stops the goroutine.
func (f *Folder) Close() {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.queue)
	}
	f.mu.Unlock()
	<-f.done
}

func (f *Folder) work() {
	defer close(f.done)
	for p := range f.queue {
		c, err := p.Make()
		switch {
		case err != nil:
		case c == nil:
			f.log.Warn("a call was not recorded: it exceeds the size of a recording", "tool", p.Tool)
			continue
		default:
			err = f.write(c)
		}
		if err != nil {
			f.log.Warn("a call was not recorded", "tool", p.Tool, "err", err)
		}
	}
}

// stamp is the form of the time in file names, which sort by it.
const stamp = "20060102T150405.000Z"

var (
	fileForm  = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-.*-[0-9a-f]{8}\.json$`)
	unsafe    = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
	unwritten = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-.*-[0-9a-f]{8}\.json\.[0-9]+$`)
)

// fileName returns a unique file name for a case.
func fileName(c *Case) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	tool := strings.Trim(unsafe.ReplaceAllString(c.Tool, "_"), ".")
	return c.Recorded.UTC().Format(stamp) + "-" + cmp.Or(tool[:min(len(tool), 80)], "_") + "-" + hex.EncodeToString(random[:]) + ".json"
}

func (f *Folder) write(c *Case) error {
	err := Write(filepath.Join(f.dir, fileName(c)), c)
	if errors.Is(err, fs.ErrNotExist) { // the folder was removed
		if err = os.MkdirAll(f.dir, 0o700); err == nil {
			err = Write(filepath.Join(f.dir, fileName(c)), c)
		}
	}
	if err != nil {
		return err
	}
	return f.prune(time.Now())
}

// prune removes the oldest cases, and unfinished files of killed processes.
func (f *Folder) prune(now time.Time) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		switch name := e.Name(); {
		case fileForm.MatchString(name):
			names = append(names, name)
		case unwritten.MatchString(name):
			if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > leftoverAge {
				names = slices.Insert(names, 0, name)
			}
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	for len(names) > 0 && (rank(names[0]) == 0 || len(names) > f.keep) {
		if err := os.Remove(filepath.Join(f.dir, names[0])); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may have removed it
			return err
		}
		names = names[1:]
	}
	return nil
}

// rank sorts unfinished files first.
func rank(name string) int {
	if strings.HasSuffix(name, ".json") {
		return 1
	}
	return 0
}
