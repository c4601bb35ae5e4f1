// Package status is what a running endpoint says of itself to those who operate it: the documents that the API below
// /api/v1 answers with and that vmcp status, logs and describe print. It holds no value of a variable, a header or a
// call.
package status

import (
	"encoding/json"
	"time"

	"github.com/vmcp-dev/vmcp/backends/lines"
	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Status is the document of GET /api/v1/status: the endpoint at one moment.
type Status struct {
	Name      string        `json:"name"`
	Version   string        `json:"version"`
	Commit    string        `json:"commit"` // that was built; "" when the build does not know it
	PID       int           `json:"pid"`
	URL       string        `json:"url"` // of the MCP endpoint; "" over stdio
	StartedAt time.Time     `json:"startedAt"`
	Ready     bool          `json:"ready"` // as /readyz answers
	Draining  bool          `json:"draining"`
	Sessions  int           `json:"sessions"` // of clients, open ones
	Config    Config        `json:"config"`
	Cluster   *Cluster      `json:"cluster,omitempty"` // nil: the process is alone
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

// Cluster says which replica a status is of: all of it is what that one sees, and has.
type Cluster struct {
	ID        string `json:"id"`
	Advertise string `json:"advertise"` // where the others dial it
	Replicas  int    `json:"replicas"`  // that live, this one included
	Configs   int    `json:"configs"`   // different configurations that they serve
	Error     string `json:"error,omitempty"`
}

// Replica is one of the replicas in the document of GET /api/v1/replicas: {"replicas": [...]}, the one that was asked first.
type Replica struct {
	ID      string  `json:"id"` // "" for a process that is alone
	Address string  `json:"address"`
	Status  *Status `json:"status,omitempty"`
	Error   string  `json:"error,omitempty"` // why there is no status
}

// Server is what is known of the process that serves, and of no configuration.
type Server struct {
	Commit string // that was built
	URL    string // of the MCP endpoint
}

// Config is the configuration that is served.
type Config struct {
	Source     string    `json:"source"`     // the file; "" for none
	Hash       string    `json:"hash"`       // see package fingerprint
	Generation uint64    `json:"generation"` // how many were applied, this one included; 0 before the first
	AppliedAt  time.Time `json:"appliedAt,omitzero"`
	// Error is why the last version of the configuration is not the one that is served; "" when it is.
	Error string `json:"error,omitempty"`
}

// States of a backend.
const (
	Ready      = "ready"
	Connecting = "connecting"
	Down       = "down"
	Disabled   = "disabled"
)

// Backend is one of the servers behind the endpoint.
type Backend struct {
	Name        string    `json:"name"`
	State       string    `json:"state"`
	Since       time.Time `json:"since"`
	Error       string    `json:"error,omitempty"` // what went wrong last, while it is not ready
	Transport   string    `json:"transport"`       // stdio, streamable-http or sse
	Revision    string    `json:"revision,omitempty"`
	Prefix      string    `json:"prefix"` // of the names of its tools
	Tools       int       `json:"tools"`
	Prompts     int       `json:"prompts"`
	Resources   int       `json:"resources"` // with templates
	Connections int64     `json:"connections"`
	Calls       uint64    `json:"calls"`
	Failures    uint64    `json:"failures"` // calls without an answer
	Restarts    uint64    `json:"restarts"` // how often it was dialled or started again
	LastCallAt  time.Time `json:"lastCallAt,omitzero"`
	Processes   []Process `json:"processes"`
}

// Process is a process of a backend over stdio.
type Process struct {
	PID       int       `json:"pid"`
	RSSBytes  int64     `json:"rssBytes,omitempty"` // resident memory; left out where the system does not say
	StartedAt time.Time `json:"startedAt"`
}

// Tools are how many there are.
type Tools struct {
	Visible int `json:"visible"` // to clients, in the list of /mcp
	Hidden  int `json:"hidden"`  // that scripts alone call
}

// Profile is a named view of the catalog.
type Profile struct {
	Name  string `json:"name"`
	URL   string `json:"url"`
	Tools int    `json:"tools"` // that its clients see
}

// ToolRow is a tool in the document of GET /api/v1/tools, {"tools":[…]}.
type ToolRow struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Backend     string `json:"backend"`            // "" for a scripted tool
	Original    string `json:"original,omitempty"` // its name at the backend
	Scripted    bool   `json:"scripted"`
	Hidden      bool   `json:"hidden"`
	SchemaBytes int    `json:"schemaBytes"` // of its schemas, as clients get them
}

// Tool is the document of GET /api/v1/tools/NAME.
type Tool struct {
	ToolRow
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
	Example      json.RawMessage `json:"example,omitempty"` // arguments that the input schema takes; none when there is no telling
	Call         string          `json:"call"`              // a command for a shell
	Script       string          `json:"script"`            // an expression of Starlark
	Source       string          `json:"source,omitempty"`  // file:line where a scripted tool is defined
	LastResult   *LastResult     `json:"lastResult,omitempty"`
}

// LastResult is what the last result of a tool looked like.
type LastResult struct {
	At time.Time `json:"at"`
	// Shape has the keys of the result, and types in the place of values: "string", "number", "boolean", "null"; a
	// list has the shape of its members, each different one once.
	Shape json.RawMessage `json:"shape"`
}

// LogLine is a line of GET /api/v1/backends/NAME/logs and GET /api/v1/logs, which answer with one JSON text per line.
type LogLine = lines.Line

// Failure is the document of every answer that is not 2xx.
type Failure struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}
