package proxy

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

// isModern tells the eras apart: a stateless client names its revision in every header
// and in every _meta, and has no session.
func isModern(r *http.Request, m *wire.Message) bool {
	if wire.IsModern(r.Header.Get(wire.HeaderVersion)) {
		return true
	}
	if r.Header.Get(wire.HeaderSession) != "" || m.Method == wire.Initialize {
		return false
	}
	return m.Method == wire.Discover || wire.GetPath(m.Params, "_meta", wire.MetaProtocolVersion) != nil
}

// postModern serves one stateless request.
func (p *Proxy) postModern(w http.ResponseWriter, r *http.Request, m *wire.Message, body *buffer) {
	if !m.IsRequest() {
		w.WriteHeader(http.StatusAccepted) // a notification has nobody to go to
		return
	}
	reply := &httpReply{w: w, r: r}
	c, err := p.statelessClient(m, r.Header, p.principal(r))
	if err == nil {
		err = checkStandardHeaders(r.Header, m)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, m.ID, err)
		return
	}
	x := newExchange(p, c, m.Method, m.Params, reply)
	x.header, x.body = r.Header, body
	if m.Method == wire.Listen {
		p.listen(r.Context(), x, m.ID, reply)
		return
	}
	defer reply.startSoon()()
	resp, err := p.serve(r.Context(), x)
	defer release(resp)
	if r.Context().Err() != nil {
		reply.abandon()
		return
	}
	reply.finish(m.ID, resp, err)
}

// statelessClient reads who asks from a request's _meta (2026-07-28, basic/lifecycle).
// header is nil on stdio.
func (p *Proxy) statelessClient(m *wire.Message, header http.Header, principal string) (*client, error) {
	meta := wire.Get(m.Params, "_meta")
	version := wire.Get(meta, wire.MetaProtocolVersion)
	if version == nil || version[0] != '"' {
		return nil, wire.Errorf(wire.InvalidParams, "params._meta: want %s", wire.MetaProtocolVersion)
	}
	revision := wire.Text(version)
	if header != nil {
		if err := sameHeader(header, wire.HeaderVersion, revision); err != nil {
			return nil, err
		}
	}
	if revision != wire.Rev2607 {
		return nil, unsupported(revision)
	}
	c := &client{
		principal:    principal,
		revision:     revision,
		capabilities: wire.Get(meta, wire.MetaClientCapabilities),
		info:         wire.Get(meta, wire.MetaClientInfo),
		logLevel:     wire.GetString(meta, wire.MetaLogLevel),
	}
	if len(c.capabilities) == 0 || c.capabilities[0] != '{' {
		return nil, wire.Errorf(wire.InvalidParams, "params._meta: want an object %s", wire.MetaClientCapabilities)
	}
	return c, nil
}

func unsupported(revision string) error {
	err := wire.Errorf(wire.UnsupportedVersion, "unsupported protocol version %q", revision)
	supported, _ := json.Marshal(wire.Supported)
	err.Data = wire.Set(wire.Set(nil, "supported", supported), "requested", wire.Quote(revision))
	return err
}

// checkStandardHeaders compares the headers that intermediaries decide by with the body.
func checkStandardHeaders(h http.Header, m *wire.Message) error {
	if err := sameHeader(h, wire.HeaderMethod, m.Method); err != nil {
		return err
	}
	member := nameMember(m.Method)
	if member == "" {
		return nil
	}
	return sameHeader(h, wire.HeaderName, wire.GetString(m.Params, member))
}

func sameHeader(h http.Header, name, want string) error {
	values := h.Values(name)
	if len(values) != 1 {
		return wire.Errorf(wire.HeaderMismatch, "header %s: want it once, with the value %q of the body", name, want)
	}
	got, ok := wire.DecodeHeader(strings.TrimSpace(values[0]))
	if !ok || got != want {
		return wire.Errorf(wire.HeaderMismatch, "header %s is %q, the body says %q", name, values[0], want)
	}
	return nil
}
