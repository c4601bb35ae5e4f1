package proxy

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/display"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/runs"
)

// resourceUpdated notifies the subscribers of a resource.
func (p *Proxy) resourceUpdated(be *backends.Backend, session, uri string, params json.RawMessage) {
	p.subscriptions.ResourceUpdated(be, session, uri, runs.CleanMeta(params))
}

// sessionListChanged announces to one session that a list of its backend session has changed.
func (p *Proxy) sessionListChanged(be *backends.Backend, session, method string) {
	if s := p.edge.Session(session); s != nil && p.viewOfSession(s).MayShow(be.Name()) {
		p.subscriptions.ListChanged(session, method)
	}
}

// unrouted logs a log message of a backend that belongs to no client.
func (p *Proxy) unrouted(be *backends.Backend, method string, params json.RawMessage) {
	if method == wire.LogMessage {
		p.log.Info("message of a backend", "backend", be.Name(), "level", jsonscan.GetString(params, "level"), "data", display.Counted(string(p.secrets.JSON(jsonscan.Get(params, "data"))), maxSaid)) // cut after hiding: a part of a secret would not be found
	}
}

// maxSaid bounds a backend's message in the log, in characters.
const maxSaid = 1 << 10
