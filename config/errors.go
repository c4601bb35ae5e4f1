package config

import (
	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// code is the code of problems with a configuration.
const code = "config"

// Partial reports whether the file that c was read from has problems, so that some of it
// may be missing.
func (c *Config) Partial() bool { return c.partial }

// Place is where the file says what stands at path, such as scriptedTools[2].script, or
// what holds it; no place for a configuration that comes from no file.
func (c *Config) Place(path string) diag.Pos {
	return document.PlaceIn(c.places, c.places[""].File, path)
}

// Origin says where the text at path stands: a block scalar that begins with | stands in
// the file line by line.
func (c *Config) Origin(path string) diag.Origin {
	if o, ok := c.origins[path]; ok {
		return o
	}
	return diag.Origin{Pos: c.Place(path)}
}
