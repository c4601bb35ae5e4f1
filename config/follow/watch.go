package follow

import (
	"context"
	"maps"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

const (
	// debounce is how long files have to stay as they are before they are read: editors
	// and deployments write in several steps.
	debounce = 100 * time.Millisecond
	// maxDebounce bounds the wait for files to stay as they are.
	maxDebounce = 500 * time.Millisecond
	// lookAgain is for what no event shows: network file systems, and a file that was
	// missed because nobody knew of its folder yet.
	lookAgain = 2 * time.Second
)

// A watch follows one configuration file. It compares stamps and takes the events of
// the file system only as a reason to look: no system reports every kind of change.
type watch struct {
	file   *File
	path   string
	apply  func(*config.Config) error
	events *fsnotify.Watcher // nil when the system has none left; then only lookAgain looks
	reads  config.Reads      // what the last good version read
	read   stamps            // what was read at the last attempt
	failed string            // why the last attempt was not applied
}

func newWatch(f *File, apply func(*config.Config) error) *watch {
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
		_ = w.events.Close() // nobody reads any more
	}
}

// attempt reads the file and applies it. Stamps are taken before what they stand for
// is read, so that a change in between is found later.
func (w *watch) attempt() error {
	w.note()
	load := w.file.Load
	if load == nil {
		load = config.Load
	}
	cfg, err := load(w.file.Path)
	if err != nil {
		return err
	}
	w.reads = cfg.Reads()
	w.note() // apply reads the scripts
	return w.apply(cfg)
}

// note remembers how the files are now and asks for events from all their folders.
func (w *watch) note() {
	before := w.read[w.path]
	w.read = w.stamps()
	if before.Exists() && !before.Same(w.read[w.path]) {
		w.read[w.path] = before // it changed after it was read
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
			_ = w.events.Add(dir) // a folder that is not there yet: lookAgain
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

// follow applies what changes until ctx ends.
func (w *watch) follow(ctx context.Context) {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed():
			w.look(ctx)
		case <-w.missed():
			w.look(ctx)
		case <-w.file.Reload:
			w.again(true)
		case <-tick.C:
			if w.failed != "" {
				w.again(false)
			} else if !w.stamps().same(w.read) {
				w.look(ctx)
			}
		}
	}
}

// look applies what the files have become once they stay as they are, if that is something else.
func (w *watch) look(ctx context.Context) {
	if w.stable(ctx) {
		w.again(false)
	}
}

// changed is the stream of events; nil without a watcher.
func (w *watch) changed() <-chan fsnotify.Event {
	if w.events == nil {
		return nil
	}
	return w.events.Events
}

// missed reports events that were too many to be kept.
func (w *watch) missed() <-chan error {
	if w.events == nil {
		return nil
	}
	return w.events.Errors
}

// stable waits until the files stay as they are and reports whether they differ from what was read.
func (w *watch) stable(ctx context.Context) bool {
	began, last := time.Now(), stamps(nil)
	for now := w.stamps(); !now.same(last) && time.Since(began) < maxDebounce; now = w.stamps() {
		last = now
		if !w.pause(ctx) {
			return false
		}
	}
	return !w.stamps().same(w.read)
}

// pause waits for debounce, and swallows the events meanwhile: the stamps show all of it.
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

// again applies a later version, or reports why not: once per reason, unless somebody
// asked for it.
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
