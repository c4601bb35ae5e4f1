package proxy

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/clip"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/adapt"
)

// resourceUpdated passes on that a resource has changed.
func (p *Proxy) resourceUpdated(be *backends.Backend, session, uri string, params json.RawMessage) {
	p.subscriptions.ResourceUpdated(be, session, uri, adapt.CleanMeta(params))
}

// sessionListChanged announces to one session that a list has changed for it.
func (p *Proxy) sessionListChanged(be *backends.Backend, session, method string) {
	if s := p.edge.Session(session); s != nil && p.viewOfSession(s).MayShow(be.Name()) {
		p.subscriptions.ListChanged(session, method)
	}
}

// unrouted takes a notification that no client can be tied to.
func (p *Proxy) unrouted(be *backends.Backend, method string, params json.RawMessage) {
	if method == wire.LogMessage {
		p.log.Info("backend says", "backend", be.Name(), "level", jsonscan.GetString(params, "level"), "data", clip.Counted(string(p.secrets.JSON(jsonscan.Get(params, "data"))), maxSaid)) // half of a secret would not be found
	}
}

// maxSaid is how much of a backend's message goes to the log.
const maxSaid = 1 << 10
