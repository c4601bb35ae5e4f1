package config

import (
	"cmp"
	"fmt"
	"os"

	"github.com/vmcp-dev/vmcp/internal/spell"
	"github.com/vmcp-dev/vmcp/lock"
	"github.com/vmcp-dev/vmcp/script/check/codes"
)

// Pins hold the backends to definitions that somebody has reviewed: those of their tools, prompts, resources and templates, and their instructions.
type Pins struct {
	// File has the definitions; vmcp lock writes it. Relative to the configuration file. Without it: vmcp.lock, if it is there.
	File string `json:"file,omitempty"`
	// OnChange is what happens to an entry that differs from its pin. warn reports and serves it. block reports it, and it is unknown to clients and scripts until its pin is renewed.
	OnChange string `json:"onChange,omitempty" enum:"off,warn,block" default:"warn"`
	// OnNew is what happens to an entry without a pin, of a backend that has pins.
	OnNew string `json:"onNew,omitempty" enum:"allow,block" default:"allow"`

	// Path is where the file is, named or not; "" is nowhere.
	Path string `json:"-"`
	// Required says that it has to be there.
	Required bool `json:"-"`
}

// pins finds the file. Whether it is there and right is looked at when it is read: the command
// that writes the first one reads the same configuration.
func (v *validator) pins(p *Pins) {
	p.Required = p.File != "" || p.OnChange == "block" || p.OnNew == "block"
	given := cmp.Or(p.File, lock.DefaultFile)
	p.Path = v.absolute(given)
	if p.File != "" {
		p.File = p.Path
	}
	switch info, err := os.Stat(p.Path); {
	case v.set("pins.file") && p.File == "":
		v.report("pins.file", "want the name of a file, such as %s", lock.DefaultFile)
	case err == nil && !info.Mode().IsRegular():
		v.report("pins.file", "%q is no regular file", given)
	}
}

// Enforce blocks what differs from its pin and what has none, whatever the configuration says.
func (p *Pins) Enforce() { p.OnChange, p.OnNew, p.Required = "block", "block", true }

// Wanted reports whether anything is held to the file.
func (p *Pins) Wanted() bool { return p.Path != "" && (p.OnChange != "off" || p.OnNew == "block") }

// Check says what is made of the problems that checks of scripts find.
type Check struct {
	// Strict makes vmcp check exit with 1 for warnings, too.
	Strict bool `json:"strict,omitempty"`
	// Ignore lists the codes of problems that are not reported.
	Ignore []string `json:"ignore,omitempty"`
	// Severity makes warnings errors and errors warnings, by code.
	Severity map[string]string `json:"severity,omitempty"`
}

func (v *validator) check(c *Check) {
	for i, code := range c.Ignore {
		v.code(fmt.Sprintf("check.ignore[%d]", i), code)
	}
	for code, severity := range c.Severity {
		at := v.member("check.severity", code)
		v.code(at, code)
		if severity != "error" && severity != "warning" {
			v.report(at, "want error or warning, have %q", severity)
		}
	}
}

func (v *validator) code(at, code string) {
	switch _, known := codes.Find(code); {
	case !known:
		v.report(at, "there is no code %q%s", code, spell.Hint(code, codes.Names()))
	case codes.Fixed(code):
		v.report(at, "%s stays an error: nothing runs with it", code)
	}
}

// Introspection shows the endpoint to its own clients: to agents that write scripts, for one.
type Introspection struct {
	// Resources offers vmcp://state, the backends and how much they offer; vmcp://scripts, the scripted tools; and vmcp://scripts/NAME, the text of each. Whoever may not see a backend or a tool does not see it there.
	Resources bool `json:"resources,omitempty" crd:"yes"`
}
