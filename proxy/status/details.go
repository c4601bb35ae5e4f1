package status

import (
	"encoding/json"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Details are the state of an endpoint at one moment, which /readyz shows to operators.
type Details struct {
	Ready    bool             `json:"ready"`    // /readyz answers 200, and every backend that is not disabled is ready
	Draining bool             `json:"draining"` // the process is shutting down
	Sessions int              `json:"sessions"`
	Backends []DetailsBackend `json:"backends"`
	Tools    []DetailsTool    `json:"tools,omitempty"`
	Profiles []DetailsProfile `json:"profiles,omitempty"`
	Problems diag.Problems    `json:"problems,omitempty"`
	Storage  *Storage         `json:"storage,omitempty"`
	Config   *DetailsConfig   `json:"config,omitempty"`
	Cluster  *DetailsCluster  `json:"cluster,omitempty"`
}

// DetailsConfig is the configuration that is served.
type DetailsConfig struct {
	Hash       string    `json:"hash"`       // see package fingerprint: equal files have equal hashes
	Generation uint64    `json:"generation"` // number of applied configurations
	AppliedAt  time.Time `json:"appliedAt"`
}

// DetailsCluster is the cluster as this replica sees it: the rest of the document is about this replica alone.
type DetailsCluster struct {
	ID        string         `json:"id"`        // of this replica
	Advertise string         `json:"advertise"` // where the others dial it
	Replicas  int            `json:"replicas"`  // alive, including this one
	Configs   map[string]int `json:"configs"`   // number of replicas by hash of their configuration
	Error     string         `json:"error,omitempty"`
}

// Storage is the state of the store of runs.
type Storage struct {
	Provider string `json:"provider"` // memory, sqlite or postgres
	OK       bool   `json:"ok"`       // it answers
	Error    string `json:"error,omitempty"`
}

// DetailsBackend is the state of one backend.
type DetailsBackend struct {
	Name      string `json:"name"`
	State     string `json:"state"` // connecting, ready, down or disabled
	Since     string `json:"since,omitempty"`
	Error     string `json:"error,omitempty"`
	Transport string `json:"transport,omitempty"`
	Revision  string `json:"revision,omitempty"`
	Tools     int    `json:"tools"`
	Prompts   int    `json:"prompts"`
	Resources int    `json:"resources"`
}

// DetailsTool is one tool, with its backend.
type DetailsTool struct {
	Name        string          `json:"name"`
	Backend     string          `json:"backend,omitempty"` // empty for a scripted tool
	Original    string          `json:"original,omitempty"`
	Hidden      bool            `json:"hidden,omitempty"`
	Description string          `json:"description,omitempty"`
	Definition  json.RawMessage `json:"definition,omitempty"`
}

// DetailsProfile is one profile.
type DetailsProfile struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	URL         string `json:"url"`   // path at the endpoint
	Tools       int    `json:"tools"` // number of its tools without policies
}
