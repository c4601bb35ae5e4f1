package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// watched is a folder with a configuration that a File watches.
type watched struct {
	t        *testing.T
	dir      string
	applied  chan string // the name of each version, with the result of its script
	rejected chan error
	reload   chan os.Signal
}

func watchFolder(t *testing.T, lay func(dir string), path string) *watched {
	t.Helper()
	w := &watched{t: t, dir: t.TempDir(), applied: make(chan string, 10), rejected: make(chan error, 10), reload: make(chan os.Signal)}
	lay(w.dir)
	file := &File{Path: filepath.Join(w.dir, path), Reload: w.reload, Rejected: func(err error) { w.rejected <- err }}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- file.Watch(ctx, w.apply) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Watch = %v, want nil when its context ends", err)
		}
	})
	return w
}

func (w *watched) apply(c *Config) error {
	reads := c.Scripted()
	files, folders := reads.Files, reads.Folders
	state := c.Name
	for _, dir := range folders {
		found, _ := filepath.Glob(filepath.Join(dir, "*.star"))
		files = append(files, found...)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "broken") {
			return errors.New("a broken script")
		}
		state += " " + strings.TrimSpace(string(text))
	}
	w.applied <- state
	return nil
}

func (w *watched) want(version string) {
	w.t.Helper()
	select {
	case got := <-w.applied:
		if got != version {
			w.t.Fatalf("applied %q, want %q", got, version)
		}
	case err := <-w.rejected:
		w.t.Fatalf("rejected: %v; want %q applied", err, version)
	case <-time.After(time.Minute):
		w.t.Fatalf("%q was not applied", version)
	}
}

func (w *watched) wantRejected(reason string) {
	w.t.Helper()
	select {
	case got := <-w.applied:
		w.t.Fatalf("applied %q, want it rejected", got)
	case err := <-w.rejected:
		if !strings.Contains(err.Error(), reason) {
			w.t.Fatalf("rejected: %v, want %q", err, reason)
		}
	case <-time.After(time.Minute):
		w.t.Fatalf("nothing was rejected, want %q", reason)
	}
}

func (w *watched) write(name, text string) {
	w.t.Helper()
	put(w.t, w.dir, name, text)
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func (w *watched) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

const withScript = "name: first\nscriptedTools: [{name: a, description: A., scriptFile: scripts/a.star}]\n"

func TestFileIsFollowed(t *testing.T) {
	testmode.Parallel(t)
	w := watchFolder(t, func(dir string) {
		put(t, dir, "vmcp.yaml", withScript)
		put(t, dir, "scripts/a.star", "one")
	}, "vmcp.yaml")
	w.want("first one")

	// A script that is written in place.
	w.write("scripts/a.star", "two")
	w.want("first two")

	// A file that an editor writes under another name and renames.
	w.write("vmcp.yaml.new", strings.Replace(withScript, "first", "second", 1))
	w.do(os.Rename(filepath.Join(w.dir, "vmcp.yaml.new"), filepath.Join(w.dir, "vmcp.yaml")))
	w.want("second two")

	// An invalid version is reported once, and the next valid one is applied.
	w.write("vmcp.yaml", "name: [")
	w.wantRejected("vmcp.yaml:1:")
	w.write("vmcp.yaml", withScript)
	w.want("first two")
	w.write("scripts/a.star", "broken")
	w.wantRejected("a broken script")
	w.write("scripts/a.star", "three")
	w.want("first three")

	// A reload is requested, and nothing has changed.
	w.reload <- os.Interrupt
	w.want("first three")
}

func TestFoldersAreFollowed(t *testing.T) {
	testmode.Parallel(t)
	w := watchFolder(t, func(dir string) {
		put(t, dir, "vmcp.yaml", "name: n\nscripts: [tools]\nlibraries: [{path: lib}]\n")
		put(t, dir, "tools/a.star", "a")
		put(t, dir, "lib/text/deep.star", "d")
	}, "vmcp.yaml")
	w.want("n a")
	w.write("tools/b.star", "b")
	w.want("n a b")
	w.do(os.Remove(filepath.Join(w.dir, "tools", "a.star")))
	w.want("n b")
	w.write("lib/text/deep.star", "deeper")
	w.want("n b")
	w.write("lib/more/new.star", "new")
	w.want("n b")
}

// A file in a folder that was not watched yet is found, too.
func TestMissingFileIsFound(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "vmcp.yaml", "name: first")
	synctest.Test(t, func(t *testing.T) {
		var applied, rejected []string
		w := onlyByTheClock(&File{Path: filepath.Join(dir, "vmcp.yaml"), Rejected: func(err error) { rejected = append(rejected, err.Error()) }},
			func(c *Config) error {
				applied = append(applied, fmt.Sprint(c.Name, len(c.Scripted().Files)))
				return nil
			})
		defer follow(t, w)()
		put(t, dir, "vmcp.yaml", withScript)
		time.Sleep(2 * lookAgain)
		synctest.Wait()
		if len(rejected) != 1 || !strings.Contains(rejected[0], `no such file "scripts/a.star"`) {
			t.Errorf("rejected %q", rejected)
		}
		put(t, dir, "scripts/a.star", "one")
		time.Sleep(2 * lookAgain)
		synctest.Wait()
		if want := []string{"first0", "first1"}; !slices.Equal(applied, want) || len(rejected) != 1 {
			t.Errorf("applied %q, want %q; rejected %q", applied, want, rejected)
		}
	})
}

// onlyByTheClock is a watch without events of the file system: it only polls.
func onlyByTheClock(f *File, apply func(*Config) error) *watch {
	w := newWatch(f, apply)
	w.close()
	w.events = nil
	return w
}

// follow reads the first version and watches the file until the returned function is called.
func follow(t *testing.T, w *watch) (stop func()) {
	t.Helper()
	if err := w.attempt(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go w.follow(ctx)
	synctest.Wait()
	return func() {
		cancel()
		synctest.Wait()
	}
}

// Kubernetes swaps the symbolic link ..data; the files' own links never change.
func TestLinksAreFollowed(t *testing.T) {
	testmode.Parallel(t)
	lay := func(dir, version, text string) {
		put(t, dir, "mount/..v"+version+"/vmcp.yaml", "name: v"+version+"\nscripts: [.]\n")
		put(t, dir, "mount/..v"+version+"/a.star", text)
	}
	w := watchFolder(t, func(dir string) {
		lay(dir, "1", "one")
		mount := filepath.Join(dir, "mount")
		for link, target := range map[string]string{"..data": "..v1", "vmcp.yaml": "..data/vmcp.yaml", "a.star": "..data/a.star"} {
			if err := os.Symlink(target, filepath.Join(mount, link)); err != nil {
				t.Skip("no symbolic links here:", err)
			}
		}
		if err := os.Symlink(mount, filepath.Join(dir, "current")); err != nil {
			t.Fatal(err)
		}
	}, "current/vmcp.yaml")
	w.want("v1 one")
	lay(w.dir, "2", "two")
	mount := filepath.Join(w.dir, "mount")
	w.do(os.Symlink("..v2", filepath.Join(mount, "..data_tmp")))
	w.do(os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")))
	w.want("v2 two")

	// A symbolic link in the path of a parent folder.
	put(t, w.dir, "other/vmcp.yaml", "name: other")
	w.do(os.Symlink(filepath.Join(w.dir, "other"), filepath.Join(w.dir, "next")))
	w.do(os.Rename(filepath.Join(w.dir, "next"), filepath.Join(w.dir, "current")))
	w.want("other")
}

// TestWhatIsHalfWrittenIsNotRead: if an invalid file is corrected in place, in several writes, while it is polled, no
// intermediate version is applied.
func TestWhatIsHalfWrittenIsNotRead(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "vmcp.yaml", "name: first")
	synctest.Test(t, func(t *testing.T) {
		var applied, rejected []string
		w := onlyByTheClock(&File{Path: filepath.Join(dir, "vmcp.yaml"), Rejected: func(err error) { rejected = append(rejected, err.Error()) }},
			func(c *Config) error { applied = append(applied, c.Name); return nil })
		defer follow(t, w)()
		put(t, dir, "vmcp.yaml", "name: [")
		time.Sleep(2*lookAgain - debounce/2)
		put(t, dir, "vmcp.yaml", "name: sec")
		time.Sleep(debounce)
		put(t, dir, "vmcp.yaml", "name: second")
		time.Sleep(lookAgain)
		synctest.Wait()
		if want := []string{"first", "second"}; !slices.Equal(applied, want) || len(rejected) != 1 {
			t.Errorf("applied %q, want %q; rejected %q", applied, want, rejected)
		}
	})
}

func TestFirstVersionHasToBeGood(t *testing.T) {
	file := &File{Path: filepath.Join(t.TempDir(), "vmcp.yaml")}
	if err := file.Watch(t.Context(), func(*Config) error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Watch of a missing file = %v", err)
	}
	refuse := errors.New("no")
	if err := (Fixed{Default()}).Watch(t.Context(), func(*Config) error { return refuse }); err != refuse {
		t.Errorf("Watch with an apply that refuses = %v, want its error", err)
	}
}
