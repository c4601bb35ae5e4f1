package config

// Reads is what a configuration reads besides its own file.
type Reads struct {
	// Files are scripts, pins, keys, certificates of telemetry and files of variables; not all of them need be there.
	Files []string
	// Folders hold scripts and libraries.
	Folders []string
	// Globs are the names and patterns of files of policies.
	Globs []string
}

// Scripted is the part of Reads that scripted tools are made of.
func (c *Config) Scripted() (r Reads) {
	for _, t := range c.ScriptedTools {
		if t.ScriptFile != "" {
			r.Files = append(r.Files, t.ScriptFile)
		}
	}
	r.Folders = append(r.Folders, c.Scripts...)
	for _, l := range c.Libraries {
		if l.Path != "" {
			r.Folders = append(r.Folders, l.Path)
		}
	}
	return r
}

// Reads lists what the configuration reads besides its own file.
func (c *Config) Reads() Reads {
	r := c.Scripted()
	if c.Pins.Path != "" { // it may come later
		r.Files = append(r.Files, c.Pins.Path)
	}
	if c.Telemetry.CACertPath != "" {
		r.Files = append(r.Files, c.Telemetry.CACertPath)
	}
	r.Files = append(r.Files, c.envFiles...)
	for _, k := range c.SessionStorage.Keys {
		if k.File != "" {
			r.Files = append(r.Files, k.File)
		}
	}
	r.Globs = c.IncomingAuth.Authz.PolicyFiles
	return r
}

// Written is what the file says, as JSON, before defaults and variables are put in and paths are
// made absolute: a comment changes nothing in it, nor does the folder that the file is in. It is
// nil for a configuration that was made in Go.
func (c *Config) Written() []byte { return c.written }
