package status

import (
	"encoding/json"
	"time"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

// Details are what /readyz shows to operators: what an endpoint is made of at one moment.
type Details struct {
	Ready    bool             `json:"ready"`    // every backend is that is not disabled, and /readyz answers 200
	Draining bool             `json:"draining"` // the process is about to end
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
	Generation uint64    `json:"generation"` // how many were applied, this one included
	AppliedAt  time.Time `json:"appliedAt"`
}

// DetailsCluster are the replicas as one of them sees them: all of a page is of that one alone.
type DetailsCluster struct {
	ID        string         `json:"id"`        // of this replica
	Advertise string         `json:"advertise"` // where the others dial it
	Replicas  int            `json:"replicas"`  // that live, this one included
	Configs   map[string]int `json:"configs"`   // how many replicas serve which configuration, by its hash
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

// DetailsTool is one tool and where it comes from.
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
	URL         string `json:"url"`   // its path at the endpoint
	Tools       int    `json:"tools"` // that it shows where no policy hides any
}
