package config

import (
	"slices"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// code is the code of problems with a configuration.
const code = "config"

// Partial reports whether the file of c has problems, so that parts of c may be missing.
func (c *Config) Partial() bool { return len(c.problems) > 0 }

// Broken reports whether the value at path in the file has a problem, or a value in it, or one that
// contains it.
func (c *Config) Broken(path string) bool {
	return slices.ContainsFunc(c.problems, func(p diag.Problem) bool {
		return document.Within(p.Path, path) || document.Within(path, p.Path)
	})
}

// Place is the position in the file of the value at path, such as scriptedTools[2].script, or of
// the nearest value that contains it; the zero Pos if the configuration is from no file.
func (c *Config) Place(path string) diag.Pos {
	return document.PlaceIn(c.places, c.places[""].File, path)
}

// Origin is where the string at path is in the file: lines of a literal block scalar, which
// begins with |, correspond to lines of the file.
func (c *Config) Origin(path string) diag.Origin {
	if o, ok := c.origins[path]; ok {
		return o
	}
	return diag.Origin{Pos: c.Place(path)}
}
