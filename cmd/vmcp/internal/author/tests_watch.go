package author

import (
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/vmcp-dev/vmcp/internal/files"
)

// settle is how long files have to stay unchanged before the tests run: an editor writes
// a file in several steps.
const settle = 100 * time.Millisecond

// watcher reports changes of files below folders.
type watcher struct{ w *fsnotify.Watcher }

// watch starts watching folders, at any depth, and the folders of files.
func watch(paths ...string) (*watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	watcher := &watcher{w}
	for _, path := range paths {
		watcher.add(path)
	}
	return watcher, nil
}

// add watches a folder and those below it, or the folder of a file. Errors are ignored.
func (w *watcher) add(path string) {
	_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != path:
			return fs.SkipDir
		case d.IsDir():
			_ = w.w.Add(name)
		case name == path:
			_ = w.w.Add(filepath.Dir(name))
		}
		return nil
	})
}

// Close stops watching.
func (w *watcher) Close() error { return w.w.Close() }

// Next waits for changes, and returns the changed files, sorted; nil when ctx has ended.
func (w *watcher) Next(ctx context.Context) (changed []string) {
	var quiet <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.w.Events:
			if !ok {
				return nil
			}
			if e.Op == fsnotify.Chmod {
				continue
			}
			w.add(e.Name) // if it is a new folder
			if interesting(e.Name) && !slices.Contains(changed, e.Name) {
				changed = append(changed, e.Name)
				quiet = time.After(settle)
			}
		case <-w.w.Errors:
		case <-quiet:
			slices.Sort(changed)
			return changed
		}
	}
}

func interesting(name string) bool {
	switch filepath.Ext(name) {
	case ".star", ".yaml", ".yml", ".lock", ".json":
		return true
	}
	return false
}

// Reached returns the test files that changes can affect: those that changed themselves, and those that use a changed
// script. all reports that the change can affect every test: another kind of file has changed, such as a configuration or
// a case, or r is nil.
func (r Reach) Reached(changed []string) (tests []string, all bool) {
	if r == nil {
		return nil, true
	}
	for _, name := range changed {
		name = clean(name)
		switch {
		case files.IsTest(name):
			tests = append(tests, name)
			continue
		case filepath.Ext(name) != ".star":
			return nil, true
		}
		for test, uses := range r {
			if uses[name] {
				tests = append(tests, test)
			}
		}
	}
	slices.Sort(tests)
	return slices.Compact(tests), false
}

// Reach is the scripts that each file of tests uses, by their absolute names. A nil Reach reaches everything.
type Reach map[string]map[string]bool

func clean(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}
