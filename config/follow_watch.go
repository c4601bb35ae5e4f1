package config

import (
	"context"
	"maps"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/vmcp-dev/vmcp/internal/files"
)

const (
	// debounce is how long files must be unchanged before they are read: editors and
	// deployments write in several steps.
	debounce = 100 * time.Millisecond
	// maxDebounce bounds the wait for unchanged files.
	maxDebounce = 500 * time.Millisecond
	// lookAgain is the interval of polling, for changes without events: on network file
	// systems, and in folders that were not watched yet.
	lookAgain = 2 * time.Second
)

// A watch watches one configuration file. Whether files have changed is decided by their
// stamps; events of the file system only trigger the comparison, since no operating system
// reports every kind of change.
type watch struct {
	file   *File
	path   string
	apply  func(*Config) error
	events *fsnotify.Watcher // nil if the system has no watches left: only polling then
	reads  Reads             // what the last good version read
	read   stamps            // of the files, at the last attempt
	failed string            // why the last attempt was not applied; "" if it was
}

func newWatch(f *File, apply func(*Config) error) *watch {
	w := &watch{file: f, path: f.Path, apply: apply}
	if abs, err := filepath.Abs(f.Path); err == nil {
		w.path = abs
	}
	if events, err := fsnotify.NewWatcher(); err == nil {
		w.events = events
	}
	return w
}

func (w *watch) close() {
	if w.events != nil {
		_ = w.events.Close() // no events are read any more
	}
}

// attempt reads the file and applies it. Stamps are taken before the files are read, so
// that a change in between is detected by the next comparison.
func (w *watch) attempt() error {
	w.note()
	load := w.file.Load
	if load == nil {
		load = Load
	}
	cfg, err := load(w.file.Path)
	if err != nil {
		return err
	}
	w.reads = cfg.Reads()
	w.note() // apply reads the scripts
	return w.apply(cfg)
}

// note records the current stamps of the files and watches all their folders. If the configuration file has changed
// since the note before it was read, the earlier stamp is kept, so that the next comparison detects the change.
func (w *watch) note() {
	before := w.read[w.path]
	w.read = w.stamps()
	if before.Exists() && !before.Same(w.read[w.path]) {
		w.read[w.path] = before // it has changed since, perhaps after it was read
	}
	if w.events == nil {
		return
	}
	for name, is := range w.read {
		dirs := trail(name)
		if is.IsDir() {
			dirs = append(dirs, name)
		}
		for _, dir := range dirs {
			_ = w.events.Add(dir) // a folder that does not exist yet is polled
		}
	}
}

// stamps are those of all files that a configuration reads.
type stamps map[string]files.Stamp

func (s stamps) same(o stamps) bool { return maps.EqualFunc(s, o, files.Stamp.Same) }

func (w *watch) stamps() stamps {
	now := stamps{w.path: files.StampOf(w.path)}
	for _, name := range w.reads.Files {
		now[name] = files.StampOf(name)
	}
	for _, dir := range w.reads.Folders {
		for _, name := range scriptsBelow(dir) {
			now[name] = files.StampOf(name)
		}
	}
	for _, glob := range w.reads.Globs {
		names, _ := filepath.Glob(glob) // a bad pattern is refused by validation
		for _, name := range append(names, glob) {
			now[name] = files.StampOf(name)
		}
	}
	return now
}

// follow applies changes until ctx ends.
func (w *watch) follow(ctx context.Context) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed():
			w.rescan(ctx)
		case <-w.missed():
			w.rescan(ctx)
		case <-w.file.Reload:
			w.again(true)
		case <-tick.C:
			if !w.stamps().same(w.read) {
				w.rescan(ctx)
			} else if w.failed != "" && w.still(ctx) { // a missing file may have been created in a folder that is not watched
				w.again(false)
			}
		}
	}
}

// rescan waits until the files are stable and applies them if they differ from the last attempt.
func (w *watch) rescan(ctx context.Context) {
	if w.stable(ctx) {
		w.again(false)
	}
}

// changed is the channel of events; nil without a watcher.
func (w *watch) changed() <-chan fsnotify.Event {
	if w.events == nil {
		return nil
	}
	return w.events.Events
}

// missed is the channel of errors: events were dropped because the queue was full.
func (w *watch) missed() <-chan error {
	if w.events == nil {
		return nil
	}
	return w.events.Errors
}

// stable waits like still and reports whether the files differ from the last attempt.
func (w *watch) stable(ctx context.Context) bool { return w.still(ctx) && !w.stamps().same(w.read) }

// still waits until the files are unchanged for debounce, at most for about maxDebounce. It returns false if ctx has ended.
func (w *watch) still(ctx context.Context) bool {
	began, last := time.Now(), stamps(nil)
	for now := w.stamps(); !now.same(last) && time.Since(began) < maxDebounce; now = w.stamps() {
		last = now
		if !w.pause(ctx) {
			return false
		}
	}
	return true
}

// pause waits for debounce and discards the events meanwhile: the stamps show all changes.
func (w *watch) pause(ctx context.Context) bool {
	timer := time.NewTimer(debounce)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.changed():
		case <-w.missed():
		case <-timer.C:
			return true
		}
	}
}

// again applies a later version, or calls Rejected: once per reason, unless a reload was
// requested.
func (w *watch) again(asked bool) {
	w.read = nil
	err := w.attempt()
	if err == nil {
		w.failed = ""
		return
	}
	if reason := err.Error(); asked || reason != w.failed {
		w.failed = reason
		if w.file.Rejected != nil {
			w.file.Rejected(err)
		}
	}
}
