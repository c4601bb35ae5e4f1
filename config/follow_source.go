package config

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/files"
)

// This part of the package watches a configuration: the file with all files that it refers to, however they
// are edited, or a configuration that does not change.
//
//	err := (&follow.File{Path: "vmcp.yaml"}).Watch(ctx, proxy.Apply)

// A Source provides a configuration, and a new one whenever it changes.
type Source interface {
	// Watch calls apply with the configuration and again with every later version, one
	// at a time, and returns nil when ctx ends. If there is no first version, or
	// apply refuses it, Watch returns the error. If a later version has a problem, the
	// source reports it, the previous version stays in force, and Watch continues.
	Watch(ctx context.Context, apply func(*Config) error) error
}

// Fixed is a configuration that does not change.
type Fixed struct{ Config *Config }

// Watch applies the configuration and waits.
func (f Fixed) Watch(ctx context.Context, apply func(*Config) error) error {
	if err := apply(f.Config); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// File watches a configuration file and the scripts and folders that it refers to,
// however they change: written in place, replaced by an editor, or through a symbolic
// link whose target changes.
type File struct {
	Path string
	// Load reads the file; nil is config.Load.
	Load func(path string) (*Config, error)
	// Reload triggers a reload even if nothing changed. It may be nil.
	Reload <-chan os.Signal
	// Rejected is called with the reason why a later version was not applied, once per reason. It may be nil.
	Rejected func(error)
}

// Watch implements Source. If the first version cannot be read, it returns the error of Load.
func (f *File) Watch(ctx context.Context, apply func(*Config) error) error {
	w := newWatch(f, apply)
	defer w.close()
	if err := w.attempt(); err != nil {
		return err
	}
	w.follow(ctx)
	return nil
}

// maxFolders bounds how many folders below one are watched: of a large tree the folders
// nearest to its root are watched, and SIGHUP reloads the others.
const maxFolders = 500

// scriptsBelow lists a folder, the folders in it and their .star files, the nearest
// first. Hidden folders are skipped.
func scriptsBelow(folder string) (found []string) {
	folders := []string{folder}
	for i := 0; i < len(folders) && i < maxFolders; i++ {
		found = append(found, folders[i])
		entries, _ := os.ReadDir(folders[i]) // loading it reports an error
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

// trail lists the folders whose entries decide which file a path refers to: that of the
// file, and those of the symbolic links in the path.
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

// firstLink returns the first symbolic link in a path, and the rest of the path.
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
