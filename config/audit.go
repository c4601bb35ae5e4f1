package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// Audit is the audit log, one JSON object per line.
type Audit struct {
	// Enabled enables it.
	Enabled bool `json:"enabled,omitempty"`
	// LogFile is the file that lines are appended to, relative to the configuration file; it is created with mode 0600. Default: standard output.
	LogFile string `json:"logFile,omitempty"`
	// Component is a field of every line.
	Component string `json:"component,omitempty" default:"vmcp-server"`
	// EventTypes are the event types that are written. Default: all.
	EventTypes []string `json:"eventTypes,omitempty"`
	// ExcludeEventTypes are the event types that are not written.
	ExcludeEventTypes []string `json:"excludeEventTypes,omitempty"`
	// IncludeRequestData writes the arguments of calls, with secrets of the configuration redacted.
	IncludeRequestData bool `json:"includeRequestData,omitempty"`
	// IncludeResponseData writes the beginning of results, with secrets of the configuration redacted.
	IncludeResponseData bool `json:"includeResponseData,omitempty"`
	// DetectApplicationErrors is accepted and ignored: errors of tools are always detected.
	DetectApplicationErrors bool `json:"detectApplicationErrors,omitempty"`
	// MaxDelegationDepth is accepted and ignored.
	MaxDelegationDepth int `json:"maxDelegationDepth,omitempty"`
	// MaxDataSize bounds the request and the response in a line, each, in bytes; longer ones are truncated.
	MaxDataSize int `json:"maxDataSize,omitempty" default:"1024"`
	// Arguments is what is written about the arguments if includeRequestData is off: nothing, their names, or their SHA-256 hash.
	Arguments string `json:"arguments,omitempty" enum:"none,names,hash" default:"none"`
	// Mode is what happens when lines cannot be written. best-effort: they are counted and dropped. strict: a line is on disk before a backend is called, and another one before the response is sent; calls are refused while lines cannot be written.
	Mode string `json:"mode,omitempty" enum:"best-effort,strict" default:"best-effort"`
	// Rotate is the rotation of the file by size.
	Rotate Rotation `json:"rotate,omitempty"`
}

// Rotation is when the audit log is rotated, and how many old files are kept.
type Rotation struct {
	// Size is the size at which the file is rotated.
	Size Bytes `json:"size,omitempty" default:"100MB"`
	// Keep is how many old files are kept: logFile.1, the newest, and so on.
	Keep int `json:"keep,omitempty" default:"10"`
}

// AuditTypes are the event types.
var AuditTypes = []string{
	"mcp_tool_call", "mcp_resource_read", "mcp_prompt_get", "mcp_tools_list", "mcp_resources_list", "mcp_prompts_list",
	"mcp_initialize", "mcp_completion", "mcp_ping", "mcp_logging", "mcp_notification", "mcp_request", "http_request",
	"vmcp_workflow_step_completed", "vmcp_workflow_step_failed", "vmcp_config_applied", "vmcp_pin_violation",
}

const (
	// maxAuditData bounds audit.maxDataSize.
	maxAuditData = 1 << 20
	// minRotation is the smallest rotate.size, in bytes: room for a few of the longest lines.
	minRotation = 64 << 10
)

// audit checks the fields of audit.
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
			if near := display.Nearest(t, AuditTypes); near != "" {
				v.Report(at, "there are no events of type %q; did you mean %q?", t, near)
			} else {
				v.Warn(at, "there are no events of type %q here; there are %s", t, strings.Join(AuditTypes, ", "))
			}
		}
	}
	if n := a.MaxDataSize; v.Set("audit.maxDataSize") && (n < 1 || n > maxAuditData) {
		v.Report("audit.maxDataSize", "want a number of bytes from 1 to %d, have %d", maxAuditData, n)
	}
	if n := a.Rotate.Size; v.Set("audit.rotate.size") && n < minRotation {
		v.Report("audit.rotate.size", "want 64KB or more, have %s", n)
	}
	if n := a.Rotate.Keep; v.Set("audit.rotate.keep") && (n < 1 || n > 1000) {
		v.Report("audit.rotate.keep", "want a number from 1 to 1000, have %d", n)
	}
	if a.MaxDelegationDepth < 0 {
		v.Report("audit.maxDelegationDepth", "want a positive number, have %d", a.MaxDelegationDepth)
	}
	if a.LogFile == "" {
		return
	}
	if !v.Set("audit.enabled") {
		v.Warn("audit.logFile", "nothing is written unless audit.enabled is true")
	}
	given := a.LogFile
	a.LogFile = v.Absolute(given)
	if info, err := os.Stat(a.LogFile); err == nil && !info.Mode().IsRegular() {
		v.Report("audit.logFile", "%q is no regular file; leave it out for standard output", given)
	} else if info, err := os.Stat(filepath.Dir(a.LogFile)); err != nil || !info.IsDir() {
		v.Report("audit.logFile", "there is no folder for %q", given)
	}
}

// Recording records calls of scripted tools as cases, which can be replayed as tests and shown as
// diagrams. Secrets are redacted before.
type Recording struct {
	// Dir is the folder for the files, relative to the configuration file; it is created. If unset, nothing is recorded.
	Dir string `json:"dir,omitempty"`
	// Only is which calls are recorded.
	Only string `json:"only,omitempty" enum:"failed,all" default:"failed"`
	// Keep is how many of the newest files are kept.
	Keep int `json:"keep,omitempty" default:"100"`
	// Redact are JSON pointers to further values of a case that are redacted, beside those that are secret by their schema or name; * is any one member, such as /effects/*/result/customer/email.
	Redact []string `json:"redact,omitempty"`
}

// recordingParts are the members of a case that a pointer of redact may begin with.
var recordingParts = []string{"arguments", "effects", "output", "content", "failure", "*"}

func (v *validator) recording(r *Recording) {
	switch {
	case v.Set("recording.dir") && r.Dir == "":
		v.Report("recording.dir", "want the name of a folder, such as recordings")
	case r.Dir != "":
		given := r.Dir
		r.Dir = v.Absolute(given)
		if info, err := os.Stat(r.Dir); err == nil && !info.IsDir() {
			v.Report("recording.dir", "%q is no folder", given)
		}
	}
	for i, p := range r.Redact {
		at := document.IndexPath("recording.redact", i)
		part, below, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		switch {
		case !strings.HasPrefix(p, "/"):
			v.Report(at, "want a JSON pointer into a case, such as /arguments/card, have %q", p)
		case strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(p), "~"):
			v.Report(at, "%q: in a JSON pointer ~ is written ~0, and / inside of a name ~1", p)
		case !slices.Contains(recordingParts, part):
			v.Report(at, "%q: want a pointer into arguments, effects, output, content or failure", p)
		case part == "effects" && strings.Count(below, "/") < 1:
			v.Report(at, "%q: want a pointer into an effect, such as /effects/*/result/email", p)
		}
	}
}
