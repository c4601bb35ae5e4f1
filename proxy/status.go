package proxy

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Status is what the proxy is made of at one moment.
type Status struct {
	Ready    bool            `json:"ready"` // every backend is
	Sessions int             `json:"sessions"`
	Backends []BackendStatus `json:"backends"`
	Tools    []ToolStatus    `json:"tools,omitempty"`
	Problems []Problem       `json:"problems,omitempty"`
}

// BackendStatus is the state of one backend.
type BackendStatus struct {
	Name      string `json:"name"`
	State     string `json:"state"` // connecting, ready or down
	Since     string `json:"since,omitempty"`
	Error     string `json:"error,omitempty"`
	Transport string `json:"transport,omitempty"`
	Revision  string `json:"revision,omitempty"`
	Tools     int    `json:"tools"`
	Prompts   int    `json:"prompts"`
	Resources int    `json:"resources"`
}

// ToolStatus is one tool and where it comes from.
type ToolStatus struct {
	Name        string          `json:"name"`
	Backend     string          `json:"backend,omitempty"` // empty for a scripted tool
	Original    string          `json:"original,omitempty"`
	Hidden      bool            `json:"hidden,omitempty"`
	Description string          `json:"description,omitempty"`
	Definition  json.RawMessage `json:"definition,omitempty"`
}

// Status reports the state of the backends, the tools with their origin, hidden ones
// too, and what was refused.
func (p *Proxy) Status() Status {
	c := p.catalog.Load()
	s := Status{Ready: true, Sessions: len(p.sessions.all()) + len(p.pipes.all()), Backends: []BackendStatus{}, Problems: c.problems}
	for _, b := range p.backends.All() {
		bs := c.backendStatus(b)
		s.Ready = s.Ready && bs.State == "ready"
		s.Backends = append(s.Backends, bs)
	}
	for _, e := range c.tools.entries {
		s.Tools = append(s.Tools, e.status())
	}
	var hidden []ToolStatus
	for _, e := range c.toolByOrigin {
		if e.hidden {
			hidden = append(hidden, e.status())
		}
	}
	slices.SortFunc(hidden, func(a, b ToolStatus) int { return strings.Compare(a.Name, b.Name) })
	s.Tools = append(s.Tools, hidden...)
	return s
}

func (e *entry) status() ToolStatus {
	s := ToolStatus{Name: e.name, Hidden: e.hidden, Description: wire.GetString(e.def, "description"), Definition: e.def}
	if e.backend != nil {
		s.Backend, s.Original = e.backend.Name(), e.own
	}
	return s
}

// backendStatus shows a backend as ready once clients see what it offers.
func (c *catalog) backendStatus(b *backends.Backend) BackendStatus {
	st, offer := b.State(), b.Offer()
	if st.Status == backends.Ready && !c.ready[b] {
		st.Status = backends.Connecting
	}
	bs := BackendStatus{
		Name: b.Name(), State: st.Status.String(), Transport: st.Transport, Revision: st.Revision,
		Since: st.Since.UTC().Format("2006-01-02T15:04:05Z"),
		Tools: len(offer.Tools), Prompts: len(offer.Prompts), Resources: len(offer.Resources) + len(offer.Templates),
	}
	if st.Err != nil {
		bs.Error = st.Err.Error()
	}
	return bs
}

// serveReady answers 200 once the configuration is applied: a backend that is down is
// shown, and does not take the endpoint out of service. With ?tools it shows the tools.
func (p *Proxy) serveReady(w http.ResponseWriter, r *http.Request) {
	s := p.Status()
	if !r.URL.Query().Has("tools") {
		s.Tools = nil
	}
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(s)
}
