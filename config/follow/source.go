// Package follow hands out configurations and follows their changes: a file with everything that
// it reads, however it is edited, or one that does not change.
//
//	err := (&follow.File{Path: "vmcp.yaml"}).Watch(ctx, proxy.Apply)
package follow

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/files"
)

// A Source hands out a configuration, and a new one whenever it changes.
type Source interface {
	// Watch calls apply with the configuration and again with every later version, one
	// at a time, and returns nil when ctx ends. When there is no first version, or
	// apply refuses it, Watch returns why. A later version that has a problem is not
	// the end: the version before stays, and the source reports what is wrong.
	Watch(ctx context.Context, apply func(*config.Config) error) error
}

// Fixed is a configuration that does not change.
type Fixed struct{ Config *config.Config }

// Watch applies the configuration and waits.
func (f Fixed) Watch(ctx context.Context, apply func(*config.Config) error) error {
	if err := apply(f.Config); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// File is a configuration file that is watched together with the scripts and the
// folders that it names, however they change: written in place, replaced by an editor,
// or swapped through a symbolic link.
type File struct {
	Path string
	// Load reads the file; nil is config.Load.
	Load func(path string) (*config.Config, error)
	// Reload asks for another reading though nothing changed. It may be nil.
	Reload <-chan os.Signal
	// Rejected is called with why a later version was not applied, once per reason. It may be nil.
	Rejected func(error)
}

// Watch implements Source. The error of a first version that cannot be read is that of Load.
func (f *File) Watch(ctx context.Context, apply func(*config.Config) error) error {
	w := newWatch(f, apply)
	defer w.close()
	if err := w.attempt(); err != nil {
		return err
	}
	w.follow(ctx)
	return nil
}

// maxFolders bounds how many folders below one are looked into again and again: whoever
// names the root of a large tree has its nearest folders watched, and SIGHUP for the rest.
const maxFolders = 500

// scriptsBelow lists a folder, the folders in it and their .star files, the nearest
// first. Hidden folders are left out.
func scriptsBelow(folder string) (found []string) {
	folders := []string{folder}
	for i := 0; i < len(folders) && i < maxFolders; i++ {
		found = append(found, folders[i])
		entries, _ := os.ReadDir(folders[i]) // one that cannot be read shows when it is loaded
		for _, e := range entries {
			name := filepath.Join(folders[i], e.Name())
			switch {
			case strings.HasPrefix(e.Name(), "."):
			case e.IsDir():
				folders = append(folders, name)
			case strings.HasSuffix(e.Name(), ".star") && !files.IsTest(e.Name()):
				found = append(found, name)
			}
		}
	}
	return found
}

// trail lists the folders in which something on the way to name can be replaced: its
// own, and those of the symbolic links that lead there.
func trail(name string) []string {
	dirs := []string{filepath.Dir(name)}
	for range 40 { // as many links as the system follows
		link, rest := firstLink(name)
		if link == "" {
			break
		}
		target, err := os.Readlink(link)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		name = filepath.Join(target, rest)
		dirs = append(dirs, filepath.Dir(link), filepath.Dir(name))
	}
	return dirs
}

// firstLink finds the outermost symbolic link in a path, and what follows it.
func firstLink(name string) (link, rest string) {
	var after string
	for at := name; ; {
		if info, err := os.Lstat(at); err == nil && info.Mode()&os.ModeSymlink != 0 {
			link, rest = at, after
		}
		up := filepath.Dir(at)
		if up == at {
			return link, rest
		}
		after = filepath.Join(filepath.Base(at), after)
		at = up
	}
}
