package config

// Reads are the files and folders that a configuration reads besides its own file.
type Reads struct {
	// Files are scripts, pins, keys, certificates of telemetry and files of variables; some may not exist.
	Files []string
	// Folders are those of scripts and libraries.
	Folders []string
	// Globs are the names and patterns of policy files.
	Globs []string
}

// Scripted is the part of Reads with scripts and libraries.
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
	if c.Pins.Path != "" { // it may be created later
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

// Written is the content of the file as JSON, before defaults are set, variables are expanded and
// paths are made absolute. It depends neither on comments nor on the folder of the file. It is nil
// for a configuration that was made in Go.
func (c *Config) Written() []byte { return c.written }
