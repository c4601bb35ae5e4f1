package overview

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
)

// Details are what /readyz shows to operators: what an endpoint is made of at one moment.
type Details struct {
	Ready    bool          `json:"ready"`    // every backend is that is not disabled, and /readyz answers 200
	Draining bool          `json:"draining"` // the process is about to end
	Sessions int           `json:"sessions"`
	Backends []Backend     `json:"backends"`
	Tools    []Tool        `json:"tools,omitempty"`
	Profiles []Profile     `json:"profiles,omitempty"`
	Problems diag.Problems `json:"problems,omitempty"`
	Storage  *Storage      `json:"storage,omitempty"`
	Config   *Config       `json:"config,omitempty"`
	Cluster  *Cluster      `json:"cluster,omitempty"`
}

// Config is the configuration that is served.
type Config struct {
	Hash       string    `json:"hash"`       // see package fingerprint: equal files have equal hashes
	Generation uint64    `json:"generation"` // how many were applied, this one included
	AppliedAt  time.Time `json:"appliedAt"`
}

// Cluster are the replicas as one of them sees them: all of a page is of that one alone.
type Cluster struct {
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

// Backend is the state of one backend.
type Backend struct {
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

// Tool is one tool and where it comes from.
type Tool struct {
	Name        string          `json:"name"`
	Backend     string          `json:"backend,omitempty"` // empty for a scripted tool
	Original    string          `json:"original,omitempty"`
	Hidden      bool            `json:"hidden,omitempty"`
	Description string          `json:"description,omitempty"`
	Definition  json.RawMessage `json:"definition,omitempty"`
}

// Profile is one profile.
type Profile struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	URL         string `json:"url"`   // its path at the endpoint
	Tools       int    `json:"tools"` // that it shows where no policy hides any
}

// DetailsOf are the details of an endpoint; hide takes secrets out of the errors of backends.
func DetailsOf(c *catalog.Catalog, all []*backends.Backend, sessions int, hide func(string) string) Details {
	s := Details{Ready: true, Sessions: sessions, Backends: []Backend{}, Problems: c.Problems}
	for _, b := range all {
		bs := backendOf(c, b)
		bs.Error = hide(bs.Error)
		s.Ready = s.Ready && (bs.State == "ready" || bs.State == "disabled")
		s.Backends = append(s.Backends, bs)
	}
	for _, e := range slices.Concat(c.VisibleTools(), c.HiddenTools()) {
		s.Tools = append(s.Tools, toolOf(e))
	}
	for _, of := range c.Profiles() {
		s.Profiles = append(s.Profiles, Profile{of.Name, of.Description, "/mcp/" + of.Name, c.Through(of.Name).Tools()})
	}
	return s
}

func toolOf(e *catalog.Entry) Tool {
	s := Tool{Name: e.Name, Hidden: e.Hidden, Description: jsonscan.GetString(e.Definition, "description"), Definition: e.Definition}
	if e.Backend != nil {
		s.Backend, s.Original = e.Backend.Name(), e.Original
	}
	return s
}

func backendOf(c *catalog.Catalog, b *backends.Backend) Backend {
	st, offer := State(c, b), b.Offer()
	bs := Backend{
		Name: b.Name(), State: st.Status.String(), Transport: st.Transport, Revision: st.Revision,
		Since: st.Since.UTC().Format("2006-01-02T15:04:05Z"),
		Tools: len(offer.Tools), Prompts: len(offer.Prompts), Resources: len(offer.Resources) + len(offer.Templates),
	}
	if st.Err != nil {
		bs.Error = st.Err.Error()
	}
	return bs
}
