// Package release says which version of vmcp this is.
package release

import "runtime/debug"

// tag is the version where the linker was told one: -ldflags "-X …/release.tag=1.2.0".
var tag string

// Version is the tag, else the module's version, or the commit that was built.
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
