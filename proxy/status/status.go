// Package status has the documents about a running endpoint for operators: those of the API below /api/v1, which vmcp
// status, logs and describe print. They contain no values of variables, headers or calls.
package status

import (
	"encoding/json"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Status is the document of GET /api/v1/status: the endpoint at one moment.
type Status struct {
	Name      string        `json:"name"`
	Version   string        `json:"version"`
	Commit    string        `json:"commit"` // of the build; "" if it is not known
	PID       int           `json:"pid"`
	URL       string        `json:"url"` // of the MCP endpoint; "" on stdio
	StartedAt time.Time     `json:"startedAt"`
	Ready     bool          `json:"ready"` // as at /readyz
	Draining  bool          `json:"draining"`
	Sessions  int           `json:"sessions"` // open ones of clients
	Config    Config        `json:"config"`
	Cluster   *Cluster      `json:"cluster,omitempty"` // nil: not in a cluster
	Backends  []Backend     `json:"backends"`          // in the order of the configuration
	Tools     Tools         `json:"tools"`
	Profiles  []Profile     `json:"profiles"`
	Problems  diag.Problems `json:"problems"` // entries of the catalog that were dropped or refused
}

// Healthy reports whether every backend that is not disabled is ready, and the last configuration was applied.
func (s *Status) Healthy() bool {
	for _, b := range s.Backends {
		if b.State != Ready && b.State != Disabled {
			return false
		}
	}
	return s.Config.Error == "" && s.Config.Generation > 0
}

// Cluster says which replica a status is of: the whole document is about that one.
type Cluster struct {
	ID        string `json:"id"`
	Advertise string `json:"advertise"` // where the others dial it
	Replicas  int    `json:"replicas"`  // alive, including this one
	Configs   int    `json:"configs"`   // number of different configurations that they serve
	Error     string `json:"error,omitempty"`
}

// Replica is an element of GET /api/v1/replicas, {"replicas": [...]}; the replica that was asked is the first.
type Replica struct {
	ID      string  `json:"id"` // "" for a process in no cluster
	Address string  `json:"address"`
	Status  *Status `json:"status,omitempty"`
	Error   string  `json:"error,omitempty"` // why there is no status
}

// Server is what is known of the serving process independently of the configuration.
type Server struct {
	Commit string // of the build
	URL    string // of the MCP endpoint
}

// Config is the configuration that is served.
type Config struct {
	Source     string    `json:"source"`     // the file; "" for none
	Hash       string    `json:"hash"`       // see package fingerprint
	Generation uint64    `json:"generation"` // number of applied configurations; 0 before the first
	AppliedAt  time.Time `json:"appliedAt,omitzero"`
	// Error is why the last version of the configuration was refused; "" if it is served.
	Error string `json:"error,omitempty"`
}

// States of a backend.
const (
	Ready      = "ready"
	Connecting = "connecting"
	Down       = "down"
	Disabled   = "disabled"
)

// Backend is one backend.
type Backend struct {
	Name        string    `json:"name"`
	State       string    `json:"state"`
	Since       time.Time `json:"since"`
	Error       string    `json:"error,omitempty"` // the last error, while it is not ready
	Transport   string    `json:"transport"`       // stdio, streamable-http or sse
	Revision    string    `json:"revision,omitempty"`
	Prefix      string    `json:"prefix"` // of the names of its tools
	Tools       int       `json:"tools"`
	Prompts     int       `json:"prompts"`
	Resources   int       `json:"resources"` // including templates
	Connections int64     `json:"connections"`
	Calls       uint64    `json:"calls"`
	Failures    uint64    `json:"failures"` // calls without a response
	Restarts    uint64    `json:"restarts"` // number of reconnections or restarts
	LastCallAt  time.Time `json:"lastCallAt,omitzero"`
	Processes   []Process `json:"processes"`
}

// Process is the process of a stdio backend.
type Process struct {
	PID       int       `json:"pid"`
	RSSBytes  int64     `json:"rssBytes,omitempty"` // resident memory; absent if the system does not report it
	StartedAt time.Time `json:"startedAt"`
}

// Tools are numbers of tools.
type Tools struct {
	Visible int `json:"visible"` // to clients, at /mcp
	Hidden  int `json:"hidden"`  // callable by scripts only
}

// Profile is a named view of the catalog.
type Profile struct {
	Name  string `json:"name"`
	URL   string `json:"url"`
	Tools int    `json:"tools"` // visible to its clients
}

// ToolRow is an element of GET /api/v1/tools, {"tools":[…]}.
type ToolRow struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Backend     string `json:"backend"`            // "" for a scripted tool
	Original    string `json:"original,omitempty"` // its name at the backend
	Scripted    bool   `json:"scripted"`
	Hidden      bool   `json:"hidden"`
	SchemaBytes int    `json:"schemaBytes"` // of its schemas, in the form for clients
}

// Tool is the document of GET /api/v1/tools/NAME.
type Tool struct {
	ToolRow
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
	Example      json.RawMessage `json:"example,omitempty"` // valid arguments; none if they cannot be derived
	Call         string          `json:"call"`              // a shell command
	Script       string          `json:"script"`            // a Starlark expression
	Source       string          `json:"source,omitempty"`  // file:line of a scripted tool's definition
	LastResult   *LastResult     `json:"lastResult,omitempty"`
}

// LastResult describes the last result of a tool.
type LastResult struct {
	At time.Time `json:"at"`
	// Shape has the keys of the result, with types in place of values: "string", "number", "boolean", "null"; a list
	// has the different shapes of its elements.
	Shape json.RawMessage `json:"shape"`
}

// LogLine is a line of GET /api/v1/backends/NAME/logs and GET /api/v1/logs, whose responses are one JSON text per line.
type LogLine = backends.Line

// Failure is the document of every response that is not 2xx.
type Failure struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}
