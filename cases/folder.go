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
	// maxQueue bounds the cases that wait to be written; more are left out.
	maxQueue = 64
	// leftoverAge is how old a file is that another process has not finished.
	leftoverAge = time.Hour
)

// A Folder writes cases of a server into a folder, in the background and the newest only. Several
// processes may write into one. The zero value is not usable; see NewFolder.
type Folder struct {
	dir  string
	keep int
	log  *slog.Logger

	queue chan Pending
	done  chan struct{}

	mu     sync.Mutex
	closed bool // queue is
}

// Pending is a case that is still to be made, by whoever writes it.
type Pending struct {
	// Make makes the case; nil when it was more than may be held.
	Make func() (*Case, error)
	// Tool is its name.
	Tool string
}

// NewFolder makes the folder and begins to write into it. Of the files that it has written, keep are kept.
func NewFolder(dir string, keep int, log *slog.Logger) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, keep: keep, log: log, queue: make(chan Pending, maxQueue), done: make(chan struct{})}
	go f.work()
	return f, nil
}

// Put hands over a case to be written. It does not wait; false when too many are written already.
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

// Close writes what was handed over, and ends.
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
			f.log.Warn("a call was not recorded: it is larger than a recording may be", "tool", p.Tool)
			continue
		default:
			err = f.write(c)
		}
		if err != nil {
			f.log.Warn("a call was not recorded", "tool", p.Tool, "err", err)
		}
	}
}

// stamp is the time in the name of a file: names sort by it.
const stamp = "20060102T150405.000Z"

var (
	fileForm  = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-.*-[0-9a-f]{8}\.json$`)
	unsafe    = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
	unwritten = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-.*-[0-9a-f]{8}\.json\.[0-9]+$`)
)

// FileName is a name for a case that no other has.
func FileName(c *Case) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	tool := strings.Trim(unsafe.ReplaceAllString(c.Tool, "_"), ".")
	return c.Recorded.UTC().Format(stamp) + "-" + cmp.Or(tool[:min(len(tool), 80)], "_") + "-" + hex.EncodeToString(random[:]) + ".json"
}

func (f *Folder) write(c *Case) error {
	err := Write(filepath.Join(f.dir, FileName(c)), c)
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed the folder
		if err = os.MkdirAll(f.dir, 0o700); err == nil {
			err = Write(filepath.Join(f.dir, FileName(c)), c)
		}
	}
	if err != nil {
		return err
	}
	return f.prune(time.Now())
}

// prune removes the oldest cases, and what a process that was killed has left.
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
		if err := os.Remove(filepath.Join(f.dir, names[0])); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may be quicker
			return err
		}
		names = names[1:]
	}
	return nil
}

// rank puts files that were not finished first.
func rank(name string) int {
	if strings.HasSuffix(name, ".json") {
		return 1
	}
	return 0
}
