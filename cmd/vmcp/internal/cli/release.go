package cli

import (
	"runtime"
	"runtime/debug"
)

// This part of the package knows the version of this binary.

// Set by the linker: the Go toolchain does not know the version of a release, and the rest only in some checkouts:
// -ldflags "-X …/cli.tag=1.2.0 -X …/cli.commit=HASH -X …/cli.date=2026-01-02T15:04:05Z -X …/cli.dirty=true".
var tag, commit, date, dirty string

// Build is the version of this binary and what it was built from. Its JSON is that of "vmcp version".
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // the whole hash; "" if not known
	Date    string `json:"date"`   // of the commit, RFC 3339 in UTC; "" if not known
	Dirty   bool   `json:"dirty"`  // built from files that differ from the commit
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Read returns what the linker was given, else what the toolchain recorded.
func Read() Build {
	b := Build{Version: Version(), Commit: commit, Date: date, Dirty: dirty == "true", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok || commit != "" {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	return b
}

// Version is the tag, else the module's version, else the commit.
func Version() string {
	if tag != "" {
		return tag
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel " + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
