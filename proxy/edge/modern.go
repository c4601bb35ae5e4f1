package edge

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// isModern detects a client of 2026-07-28: it names its revision in every header and every _meta, and has no session.
func isModern(r *http.Request, m *wire.Message) bool {
	if wire.IsModern(r.Header.Get(wire.HeaderVersion)) {
		return true
	}
	if r.Header.Get(wire.HeaderSession) != "" || m.Method == wire.Initialize {
		return false
	}
	return m.Method == wire.Discover || jsonscan.GetPath(m.Params, "_meta", wire.MetaProtocolVersion) != nil
}

// postModern serves one stateless request.
func (v *Server) postModern(w http.ResponseWriter, r *http.Request, m *wire.Message, buf *Buffer) {
	if !m.IsRequest() {
		if m.IsNotification() {
			who := &Client{Principal: v.principal(r), Profile: profileOf(r), Revision: wire.Rev2607}
			v.handler.Admit(r.Context(), Request{Client: who, Method: m.Method}, func(context.Context) error { return nil }) // no session that it could be for
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	reply := &httpReply{server: v, w: w, r: r, id: m.ID, stateless: v.stateless, ctx: r.Context()}
	c, err := statelessClient(m, r.Header, Client{Principal: v.principal(r), Profile: profileOf(r)})
	if err == nil {
		err = checkStandardHeaders(r.Header, m)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, m.ID, err)
		return
	}
	asked := Request{Client: c, Method: m.Method, Params: m.Params, ID: m.ID, Header: r.Header, Body: buf, Out: reply}
	if reply.passOn(buf.B, asked) {
		return
	}
	if m.Method == wire.Listen {
		ctx, done := v.whileListening(r)
		defer done()
		resp, err := v.handler.Serve(ctx, asked)
		reply.finish(m.ID, resp, err)
		return
	}
	defer reply.startSoon()()
	resp, err := v.handler.Serve(r.Context(), asked)
	defer release(resp)
	if r.Context().Err() != nil {
		reply.abandon()
		return
	}
	reply.finish(m.ID, resp, err)
}

// statelessClient reads the client's description from a request's _meta (2026-07-28, basic/lifecycle). header is nil on
// stdio; from has the principal and the profile of the connection.
func statelessClient(m *wire.Message, header http.Header, from Client) (*Client, error) {
	meta := jsonscan.Get(m.Params, "_meta")
	version := jsonscan.Get(meta, wire.MetaProtocolVersion)
	if version == nil || version[0] != '"' {
		return nil, wire.Errorf(wire.InvalidParams, "params._meta: want %s", wire.MetaProtocolVersion)
	}
	revision := jsonscan.Text(version)
	if header != nil {
		if err := sameHeader(header, wire.HeaderVersion, revision); err != nil {
			return nil, err
		}
	}
	if revision != wire.Rev2607 {
		return nil, unsupported(revision)
	}
	c := &Client{
		Principal:    from.Principal,
		Profile:      from.Profile,
		Revision:     revision,
		Capabilities: jsonscan.Get(meta, wire.MetaClientCapabilities),
		Info:         jsonscan.Get(meta, wire.MetaClientInfo),
		logLevel:     jsonscan.GetString(meta, wire.MetaLogLevel),
	}
	if len(c.Capabilities) == 0 || c.Capabilities[0] != '{' {
		return nil, wire.Errorf(wire.InvalidParams, "params._meta: want an object %s", wire.MetaClientCapabilities)
	}
	return c, checkIntroduction(c.Capabilities, c.Info)
}

func unsupported(revision string) error {
	err := wire.Errorf(wire.UnsupportedVersion, "unsupported protocol version %q", revision)
	supported, _ := json.Marshal(wire.Supported)
	err.Data = new(jsonscan.Object).Raw("supported", supported).Text("requested", revision).JSON()
	return err
}

// checkStandardHeaders compares the headers by which intermediaries may route with the body.
func checkStandardHeaders(h http.Header, m *wire.Message) error {
	if err := sameHeader(h, wire.HeaderMethod, m.Method); err != nil {
		return err
	}
	name, ok := wire.MethodOf(m.Method).NameIn(m.Params)
	if !ok {
		return nil
	}
	return sameHeader(h, wire.HeaderName, name)
}

func sameHeader(h http.Header, name, want string) error {
	values := h.Values(name)
	if len(values) != 1 {
		return wire.Errorf(wire.HeaderMismatch, "header %s: want it exactly once, with the value %q of the body", name, want)
	}
	got, ok := wire.DecodeHeader(strings.TrimSpace(values[0]))
	if !ok || got != want {
		return wire.Errorf(wire.HeaderMismatch, "header %s is %q, the body says %q", name, values[0], want)
	}
	return nil
}
