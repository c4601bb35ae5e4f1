package config

import (
	"cmp"
	"fmt"
	"os"

	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/codes"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// Pins compare the backends with reviewed definitions of their tools, prompts, resources and templates, and with their reviewed instructions.
type Pins struct {
	// File has the definitions; vmcp lock writes it. Relative to the configuration file. Default: vmcp.lock, if it exists.
	File string `json:"file,omitempty"`
	// OnChange is what happens to an entry that differs from its pin. warn: it is reported and served. block: it is reported, and clients and scripts do not see it until its pin is renewed.
	OnChange string `json:"onChange,omitempty" enum:"off,warn,block" default:"warn"`
	// OnNew is what happens to an entry without a pin, if its backend has pins.
	OnNew string `json:"onNew,omitempty" enum:"allow,block" default:"allow"`

	// Path is the path of the file, set or by default; "" if there is none.
	Path string `json:"-"`
	// Required is that the file must exist.
	Required bool `json:"-"`
}

// pins finds the file. That it exists and is valid is checked when it is read: the command
// that writes the first one reads the same configuration.
func (v *validator) pins(p *Pins) {
	p.Required = p.File != "" || p.OnChange == "block" || p.OnNew == "block"
	given := cmp.Or(p.File, lock.DefaultFile)
	p.Path = v.Absolute(given)
	if p.File != "" {
		p.File = p.Path
	}
	switch info, err := os.Stat(p.Path); {
	case v.Set("pins.file") && p.File == "":
		v.Report("pins.file", "want the name of a file, such as %s", lock.DefaultFile)
	case err == nil && !info.Mode().IsRegular():
		v.Report("pins.file", "%q is no regular file", given)
	}
}

// Enforce sets onChange and onNew to block, whatever the configuration sets.
func (p *Pins) Enforce() { p.OnChange, p.OnNew, p.Required = "block", "block", true }

// Wanted reports whether anything is compared with the file.
func (p *Pins) Wanted() bool { return p.Path != "" && (p.OnChange != "off" || p.OnNew == "block") }

// Check sets the severity of the problems that checks of scripts find.
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
		at := v.Member("check.severity", code)
		v.code(at, code)
		if severity != "error" && severity != "warning" {
			v.Report(at, "want error or warning, have %q", severity)
		}
	}
}

func (v *validator) code(at, code string) {
	switch _, known := codes.Find(code); {
	case !known:
		v.Report(at, "there is no code %q%s", code, display.Hint(code, codes.Names()))
	case codes.Fixed(code):
		v.Report(at, "%s stays an error: nothing runs with it", code)
	}
}

// Introspection offers the state of the endpoint as resources to its clients, such as agents that write scripts.
type Introspection struct {
	// Resources offers vmcp://state, the backends and how much they offer; vmcp://scripts, the scripted tools; and vmcp://scripts/NAME, the source of each. A client that may not see a backend or a tool does not see it there.
	Resources bool `json:"resources,omitempty" crd:"yes"`
}
