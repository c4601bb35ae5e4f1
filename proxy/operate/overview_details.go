package operate

import (
	"slices"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// DetailsOf returns the details of /readyz; hide replaces secrets in the errors of backends.
func DetailsOf(c *catalog.Catalog, all []*backends.Backend, sessions int, hide func(string) string) status.Details {
	s := status.Details{Ready: true, Sessions: sessions, Backends: []status.DetailsBackend{}, Problems: c.Problems}
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
		s.Profiles = append(s.Profiles, status.DetailsProfile{
			Name: of.Name, Description: of.Description, URL: "/mcp/" + of.Name, Tools: c.Through(of.Name).Tools(),
		})
	}
	return s
}

func toolOf(e *catalog.Entry) status.DetailsTool {
	s := status.DetailsTool{Name: e.Name, Hidden: e.Hidden, Description: jsonscan.GetString(e.Definition, "description"), Definition: e.Definition}
	if e.Backend != nil {
		s.Backend, s.Original = e.Backend.Name(), e.Original
	}
	return s
}

func backendOf(c *catalog.Catalog, b *backends.Backend) status.DetailsBackend {
	st, offer := State(c, b), b.Offer()
	bs := status.DetailsBackend{
		Name: b.Name(), State: st.Status.String(), Transport: st.Transport, Revision: st.Revision,
		Since: st.Since.UTC().Format("2006-01-02T15:04:05Z"),
		Tools: len(offer.Tools), Prompts: len(offer.Prompts), Resources: len(offer.Resources) + len(offer.Templates),
	}
	if st.Err != nil {
		bs.Error = st.Err.Error()
	}
	return bs
}
