package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/operate"

	"github.com/vmcp-dev/vmcp/proxy/edge"

	"github.com/vmcp-dev/vmcp/proxy/status"
)

// Status is the state of the proxy at one moment; the others are its parts.
type (
	Status        = status.Details
	storageStatus = status.Storage
	BackendStatus = status.DetailsBackend
	ToolStatus    = status.DetailsTool
)

// Status returns the state of the backends, the tools with their origin, including hidden ones, and the problems.
func (p *Proxy) Status() Status {
	return operate.DetailsOf(p.catalog.Load(), p.backends.All(), p.edge.Stats().Sessions, p.secrets.Text)
}

// serveReady answers 200 once the configuration is applied and every backend was tried once, or startup.wait is over: a
// backend that is down is shown, but does not make the endpoint unready. With details it shows the backends, and with
// ?tools the tools; without, only whether the endpoint is ready.
//
// With ?strict all backends that are not disabled have to be ready, with ?strict=a,b those.
func (p *Proxy) serveReady(w http.ResponseWriter, r *http.Request, details bool) {
	ready, draining := p.ready()
	stored := p.storage(r.Context())
	ready = ready && p.serves(stored) && p.strictly(r.URL.Query())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if !details {
		fmt.Fprintf(w, "{\"ready\":%v,\"draining\":%v}\n", ready, draining)
		return
	}
	w.Write(append(p.page(stored, ready, r.URL.Query().Has("tools")), '\n'))
}

// serves reports whether a required store answers, and the keys of this replica match those of the others.
func (p *Proxy) serves(stored *storageStatus) bool {
	return (stored.OK || p.durable.Load().when != "always") && p.fits() == nil
}

// strictly reports whether the backends that a query requires are ready.
func (p *Proxy) strictly(query url.Values) bool {
	if !query.Has("strict") {
		return true
	}
	wanted, ready := query.Get("strict"), map[string]bool{}
	c := p.catalog.Load()
	for _, b := range p.backends.All() {
		status := operate.State(c, b).Status
		ready[b.Name()] = status == backends.Ready
		if wanted == "" && status != backends.Ready && status != backends.Disabled {
			return false
		}
	}
	for name := range strings.SplitSeq(wanted, ",") {
		if wanted != "" && !ready[name] {
			return false
		}
	}
	return true
}

// page is the details as JSON, with secrets replaced. An endpoint that is not served is not ready, whatever its
// backends are.
func (p *Proxy) page(stored *storageStatus, served, tools bool) []byte {
	s := p.Status()
	s.Storage, s.Ready = stored, s.Ready && served
	_, s.Draining = p.ready()
	if c := p.applied.Config(); c.Generation > 0 {
		s.Config = &status.DetailsConfig{Hash: c.Hash, Generation: c.Generation, AppliedAt: c.AppliedAt}
	}
	s.Cluster = p.clusterStatus()
	if !tools {
		s.Tools = nil
	}
	text, err := jsonscan.Readable(s)
	if err != nil {
		panic(err) // a bug: it consists of strings, numbers and valid JSON
	}
	var page bytes.Buffer
	_ = json.Indent(&page, text, "", "  ") // cannot fail: it is JSON
	return p.secrets.JSON(page.Bytes())
}

// Details are the details of /readyz, for a page about several endpoints; ready is that of this one.
func (p *Proxy) Details(ctx context.Context, tools bool) (page json.RawMessage, ready bool) {
	stored := p.storage(ctx)
	ready, _ = p.ready()
	ready = ready && p.serves(stored)
	return p.page(stored, ready, tools), ready
}

// servePage serves the pages beside MCP; details are for operators.
func (p *Proxy) servePage(w http.ResponseWriter, r *http.Request, details bool) {
	switch r.URL.Path {
	case "/metrics":
		if p.hidePage.Load() {
			http.NotFound(w, r)
			return
		}
		p.metrics.Handler.ServeHTTP(w, r)
	case "/readyz":
		p.serveReady(w, r, details)
	default:
		p.console.About(w, false)
	}
}

// newConsole makes the page and the API for operators.
func (p *Proxy) newConsole() *operate.Console {
	return operate.NewConsole(operate.ConsoleOptions{
		Admin: operate.AdminOptions{
			Status: p.Overview, Replicas: p.everyReplica, Hide: p.secrets.JSON,
			Draining: p.edge.Draining(), Lines: p.lines, Backends: func() []string { return names(p.backends.All()) },
			Tools: func() []status.ToolRow { return operate.Rows(p.catalog.Load()) },
			Tool:  func(name string) (status.Tool, bool) { return operate.ToolNamed(p.catalog.Load(), &p.shapes, name) },
		},
		Version: p.catalogs.Load, Runs: p.history, Store: p.runs.Store, Call: p.Serve, Within: p.within, Turned: p.record.Refused,
		HideText: p.secrets.Text,
	})
}

// serveOperators serves the page and the API for operators.
func (p *Proxy) serveOperators(w http.ResponseWriter, r *http.Request, port edge.Port, rules *edge.Rules) bool {
	return p.console != nil && p.console.Serve(w, r, port, rules)
}

// names are the names of backends.
func names(all []*backends.Backend) (names []string) {
	for _, b := range all {
		names = append(names, b.Name())
	}
	return names
}

// Overview is the status document of the API; it may contain secrets of the configuration.
func (p *Proxy) Overview() status.Status {
	p.building.Lock()
	s := operate.Source{Version: p.options.Version, Config: p.config, Catalog: p.catalog.Load(), Backends: p.backends.All(), Applied: p.applied.Config()}
	p.building.Unlock()
	s.Ready, s.Draining = p.ready()
	s.Sessions = p.edge.Stats().Sessions
	if server := p.server.Load(); server != nil {
		s.Server = *server
	}
	d := operate.Status(&s)
	d.Cluster = p.viewOf()
	return d
}

// ServedBy sets the properties of the process that Overview reports.
func (p *Proxy) ServedBy(s status.Server) { p.server.Store(&s) }

// Refused records why a version of the configuration was refused, by Apply or before.
func (p *Proxy) Refused(why error) {
	p.applied.Refuse(p.secrets.Text(why.Error()))
	p.console.Wake()
}

// Applied is the record of applied configurations; never nil.
func (p *Proxy) Applied() *status.Applied { return &p.applied }
