package operate

import (
	"cmp"
	"os"
	"slices"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/diag"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// This part of the package makes the documents of package status from the catalog, the backends and the configuration of an
// endpoint.

// Source is an endpoint at one moment.
type Source struct {
	Version  string
	Server   status.Server
	Ready    bool
	Draining bool
	Sessions int
	Applied  status.Config
	Config   *config.Config
	Catalog  *catalog.Catalog
	Backends []*backends.Backend
}

// started is about when the process began.
var started = time.Now().UTC()

// Status is the status document.
func Status(s *Source) status.Status {
	d := status.Status{
		Name: jsonscan.GetString(s.Catalog.ServerInfo, "name"), Version: cmp.Or(s.Version, "dev"), Commit: s.Server.Commit, PID: os.Getpid(),
		URL: s.Server.URL, StartedAt: started, Ready: s.Ready, Draining: s.Draining, Sessions: s.Sessions, Config: s.Applied,
		Backends: []status.Backend{}, Profiles: []status.Profile{}, Problems: append(diag.Problems{}, s.Catalog.Problems...),
		Tools: status.Tools{Visible: len(s.Catalog.VisibleTools()), Hidden: len(s.Catalog.HiddenTools())},
	}
	for _, of := range s.Catalog.Profiles() {
		d.Profiles = append(d.Profiles, status.Profile{Name: of.Name, URL: at(s.Server.URL, of.Name), Tools: s.Catalog.Through(of.Name).Tools()})
	}
	for _, b := range s.Backends {
		d.Backends = append(d.Backends, overviewBackend(s, b))
	}
	return d
}

// at is the URL of a profile; "" on stdio.
func at(endpoint, profile string) string {
	if endpoint == "" {
		return ""
	}
	return endpoint + "/" + profile
}

func overviewBackend(s *Source, b *backends.Backend) status.Backend {
	st, offer, stats := State(s.Catalog, b), b.Offer(), b.Stats()
	d := status.Backend{
		Name: b.Name(), State: st.Status.String(), Since: st.Since.UTC(), Transport: st.Transport, Revision: st.Revision, Prefix: s.Config.PrefixOf(b.Name()),
		Tools: len(offer.Tools), Prompts: len(offer.Prompts), Resources: len(offer.Resources) + len(offer.Templates),
		Connections: stats.Connections, Calls: stats.Calls, Failures: stats.Failures, Restarts: stats.Reconnects,
		Processes: []status.Process{},
	}
	if st.Err != nil {
		d.Error = st.Err.Error()
	}
	if !stats.LastCall.IsZero() {
		d.LastCallAt = stats.LastCall.UTC()
	}
	for _, p := range b.Processes() {
		d.Processes = append(d.Processes, status.Process{PID: p.PID, RSSBytes: residentMemory(p.PID), StartedAt: p.StartedAt.UTC()})
	}
	return d
}

// State is the state of a backend. It is ready once its entries are in the catalog.
func State(c *catalog.Catalog, b *backends.Backend) backends.State {
	st := b.State()
	if st.Status == backends.Ready && !c.Shows(b) {
		st.Status = backends.Connecting
	}
	return st
}

// Rows are the tools, hidden ones last.
func Rows(c *catalog.Catalog) []status.ToolRow {
	rows := []status.ToolRow{}
	for _, e := range slices.Concat(c.VisibleTools(), c.HiddenTools()) {
		rows = append(rows, row(e))
	}
	return rows
}

func row(e *catalog.Entry) status.ToolRow {
	r := status.ToolRow{Name: e.Name, Title: jsonscan.GetString(e.Definition, "title"), Description: jsonscan.GetString(e.Definition, "description"),
		Scripted: e.Backend == nil, Hidden: e.Hidden,
		SchemaBytes: len(jsonscan.Get(e.Definition, "inputSchema")) + len(jsonscan.Get(e.Definition, "outputSchema"))}
	if e.Backend != nil {
		r.Backend, r.Original = e.Backend.Name(), e.Original
	}
	return r
}

// ToolNamed describes a tool; false if there is none of that name.
func ToolNamed(c *catalog.Catalog, shapes *status.Table, name string) (status.Tool, bool) {
	for _, e := range slices.Concat(c.VisibleTools(), c.HiddenTools()) {
		if e.Name == name {
			return overviewTool(e, shapes), true
		}
	}
	return status.Tool{}, false
}
