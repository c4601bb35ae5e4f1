package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/config/telemetry"
	"github.com/vmcp-dev/vmcp/internal/spell"
)

// Audit is the log of what was done, one JSON object a line.
type Audit struct {
	// Enabled turns it on.
	Enabled bool `json:"enabled,omitempty"`
	// LogFile is where lines are appended, relative to the configuration file; it is made with mode 0600. Without it they go to standard output.
	LogFile string `json:"logFile,omitempty"`
	// Component stands in every line.
	Component string `json:"component,omitempty" default:"vmcp-server"`
	// EventTypes are the types that are written. Without it: all of them.
	EventTypes []string `json:"eventTypes,omitempty"`
	// ExcludeEventTypes are types that are not written.
	ExcludeEventTypes []string `json:"excludeEventTypes,omitempty"`
	// IncludeRequestData writes the arguments of calls down, without the secrets of the configuration.
	IncludeRequestData bool `json:"includeRequestData,omitempty"`
	// IncludeResponseData writes the beginning of results down, without the secrets of the configuration.
	IncludeResponseData bool `json:"includeResponseData,omitempty"`
	// DetectApplicationErrors is accepted: a tool's own errors are always told from success.
	DetectApplicationErrors bool `json:"detectApplicationErrors,omitempty"`
	// MaxDelegationDepth is accepted and has no meaning here.
	MaxDelegationDepth int `json:"maxDelegationDepth,omitempty"`
	// MaxDataSize bounds each of request and response in a line, in bytes; what is longer is cut.
	MaxDataSize int `json:"maxDataSize,omitempty" default:"1024"`
	// Arguments is what is written of the arguments where includeRequestData is off: nothing, their names, or a SHA-256 hash over them.
	Arguments string `json:"arguments,omitempty" enum:"none,names,hash" default:"none"`
	// Mode is what happens when lines cannot be written. best-effort counts them and goes on. strict has a line on disk before a backend is called and another one before the answer goes out, and refuses calls while it cannot.
	Mode string `json:"mode,omitempty" enum:"best-effort,strict" default:"best-effort"`
	// Rotate begins a new file when this one is large.
	Rotate Rotation `json:"rotate,omitempty"`
}

// Rotation says when the audit's file is begun anew, and how many old ones stay.
type Rotation struct {
	// Size is how large a file becomes.
	Size Bytes `json:"size,omitempty" default:"100MB"`
	// Keep is how many files before it are kept, as logFile.1, the youngest, and so on.
	Keep int `json:"keep,omitempty" default:"10"`
}

// AuditTypes are the types of lines.
var AuditTypes = []string{
	"mcp_tool_call", "mcp_resource_read", "mcp_prompt_get", "mcp_tools_list", "mcp_resources_list", "mcp_prompts_list",
	"mcp_initialize", "mcp_completion", "mcp_ping", "mcp_logging", "mcp_notification", "mcp_request", "http_request",
	"vmcp_workflow_step_completed", "vmcp_workflow_step_failed", "vmcp_config_applied", "vmcp_pin_violation",
}

const (
	// maxAuditData bounds audit.maxDataSize.
	maxAuditData = 1 << 20
	// minRotation is the smallest size of a file: a few lines of the longest.
	minRotation = 64 << 10
)

// audit checks what is written down.
func (v *validator) audit(a *Audit) {
	for _, list := range []struct {
		field string
		types []string
	}{{"eventTypes", a.EventTypes}, {"excludeEventTypes", a.ExcludeEventTypes}} {
		for i, t := range list.types {
			if slices.Contains(AuditTypes, t) {
				continue
			}
			at := document.IndexPath("audit."+list.field, i)
			if near := spell.Nearest(t, AuditTypes); near != "" {
				v.report(at, "there are no events of type %q; did you mean %q?", t, near)
			} else {
				v.warn(at, "there are no events of type %q here; there are %s", t, strings.Join(AuditTypes, ", "))
			}
		}
	}
	if n := a.MaxDataSize; v.set("audit.maxDataSize") && (n < 1 || n > maxAuditData) {
		v.report("audit.maxDataSize", "want a number of bytes from 1 to %d, have %d", maxAuditData, n)
	}
	if n := a.Rotate.Size; v.set("audit.rotate.size") && n < minRotation {
		v.report("audit.rotate.size", "want 64KB or more, have %s", n)
	}
	if n := a.Rotate.Keep; v.set("audit.rotate.keep") && (n < 1 || n > 1000) {
		v.report("audit.rotate.keep", "want a number from 1 to 1000, have %d", n)
	}
	if a.MaxDelegationDepth < 0 {
		v.report("audit.maxDelegationDepth", "want a positive number, have %d", a.MaxDelegationDepth)
	}
	if a.LogFile == "" {
		return
	}
	if !v.set("audit.enabled") {
		v.warn("audit.logFile", "nothing is written while audit.enabled is not set")
	}
	given := a.LogFile
	a.LogFile = v.absolute(given)
	if info, err := os.Stat(a.LogFile); err == nil && !info.Mode().IsRegular() {
		v.report("audit.logFile", "%q is no regular file; leave it out for standard output", given)
	} else if info, err := os.Stat(filepath.Dir(a.LogFile)); err != nil || !info.IsDir() {
		v.report("audit.logFile", "there is no folder for %q", given)
	}
}

// telemetry checks what is sent where.
func (v *validator) telemetry(c *Config) {
	c.Telemetry.Check("telemetry", telemetry.File{
		Report: v.report, Warn: v.warn, Set: v.set, Key: document.KeyPath, URL: v.url, Absolute: v.absolute, Env: v.env,
		Secret: v.expand, Plain: v.expandPlain,
		Public: func(path, text string) string { return v.expandWith(path, text, func(string, string) {}) },
	})
}

// Recording writes calls of scripted tools down as cases, which can be run again as tests and shown as
// pictures. Secrets are replaced before.
type Recording struct {
	// Dir is the folder for the files, relative to the configuration file; it is made. Without it nothing is recorded.
	Dir string `json:"dir,omitempty"`
	// Only says which calls are recorded.
	Only string `json:"only,omitempty" enum:"failed,all" default:"failed"`
	// Keep is how many of the newest files are kept.
	Keep int `json:"keep,omitempty" default:"100"`
	// Redact are JSON pointers into a case to what is replaced beside what schemas and names call secret; * is any one part, such as /effects/*/result/customer/email.
	Redact []string `json:"redact,omitempty"`
}

// recordingParts are the members of a case that a pointer of redact may lead into.
var recordingParts = []string{"arguments", "effects", "output", "content", "failure", "*"}

func (v *validator) recording(r *Recording) {
	switch {
	case v.set("recording.dir") && r.Dir == "":
		v.report("recording.dir", "want the name of a folder, such as recordings")
	case r.Dir != "":
		given := r.Dir
		r.Dir = v.absolute(given)
		if info, err := os.Stat(r.Dir); err == nil && !info.IsDir() {
			v.report("recording.dir", "%q is no folder", given)
		}
	}
	for i, p := range r.Redact {
		at := document.IndexPath("recording.redact", i)
		part, below, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		switch {
		case !strings.HasPrefix(p, "/"):
			v.report(at, "want a JSON pointer into a case, such as /arguments/card, have %q", p)
		case strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(p), "~"):
			v.report(at, "%q: in a JSON pointer ~ is written ~0, and / inside of a name ~1", p)
		case !slices.Contains(recordingParts, part):
			v.report(at, "%q: want a pointer into arguments, effects, output, content or failure", p)
		case part == "effects" && strings.Count(below, "/") < 1:
			v.report(at, "%q: want a pointer into an effect, such as /effects/*/result/email", p)
		}
	}
}
