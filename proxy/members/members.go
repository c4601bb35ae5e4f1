// Package members reads what the proxy decides by in the params of a request.
//
// The members of a request's params that the proxy decides by are read in one pass, and the
// same pass refuses what a backend may read differently. The proxy decides by the member
// that is spelled as MCP spells it and passes all of them on; a decoder that ignores case,
// as that of Go's standard library does, would take {"name":"shown","Name":"hidden"} for a
// call of hidden. So a member that has a name of the protocol stands there once and in that
// spelling, in params, in _meta and in the ref of a completion. What is inside of arguments
// is between client and tool.
package members

import (
	"bytes"
	"encoding/json"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/adapt"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/proxy/trace"
)

// Member is one that is kept.
type Member int

const (
	Meta Member = iota // with its reserved keys
	Name
	URI
	Arguments
	State     // requestState
	Responses // inputResponses
	kept      // those above are kept; those below are only looked at
)

// paramNames are the names of members in params, in the order of Member first.
var paramNames = []string{
	"_meta", "name", "uri", "arguments", "requestState", "inputResponses",
	"cursor", "ref", "argument", "context", "level", "taskId", "task", "notifications",
}

// metaNames are the names of members in _meta that the proxy reads, and takes off but for
// the last.
var metaNames = []string{
	wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel,
	wire.MetaServerInfo, wire.MetaSubscriptionID, trace.Key, trace.OldKey, runs.MetaKey, progressToken,
}

const progressToken = "progressToken"

var refNames = []string{"type", "name", "uri"}

// spelling finds names in an object that stand there twice, or in another case.
type spelling struct {
	where string // the object, for messages
	names []string
	seen  uint
	err   error
}

// note takes the next key of the object. It returns the key's place in names, or -1.
func (s *spelling) note(key []byte) int {
	for i, name := range s.names {
		switch {
		case len(key) < len(name): // foldings of ASCII are longer, if anything
		case string(key) == name:
			if s.seen&(1<<i) != 0 && s.err == nil {
				s.err = wire.Errorf(wire.InvalidParams, "%s: member %q appears twice", s.where, name)
			}
			s.seen |= 1 << i
			return i
		case bytes.EqualFold(key, []byte(name)) && s.err == nil:
			s.err = wire.Errorf(wire.InvalidParams, "%s: member %q: want %q, spelled exactly so", s.where, key, name)
		}
	}
	return -1
}

// Members are those of a request's params, as they came; nil where there is none.
type Members struct {
	Token json.RawMessage // the progress token
	Key   json.RawMessage // the idempotency key
	Trace string          // the key of _meta under which the client wants a trace; "" for none

	kept [kept]json.RawMessage
}

// Get is a member.
func (m *Members) Get(which Member) json.RawMessage { return m.kept[which] }

// Set replaces a member.
func (m *Members) Set(which Member, value json.RawMessage) { m.kept[which] = value }

// Read reads the members of params. What goes on of params is without the reserved keys of _meta: no peer may speak
// for another. The error is why the request is refused, if it is.
func (m *Members) Read(params json.RawMessage) (on json.RawMessage, err error) {
	s := spelling{where: "params", names: paramNames}
	var ref json.RawMessage
	jsonscan.Each(params, func(key, value []byte) bool {
		switch i := s.note(key); {
		case i < 0:
		case Member(i) < kept:
			m.kept[i] = value
		case paramNames[i] == "ref":
			ref = value
		}
		return true
	})
	if err = s.err; err == nil && ref != nil {
		r := spelling{where: "params.ref", names: refNames}
		jsonscan.Each(ref, func(key, _ []byte) bool { r.note(key); return true })
		err = r.err
	}
	meta := m.Get(Meta)
	if meta == nil {
		return params, err
	}
	reserved, wrong := m.readMeta(meta)
	if err == nil {
		err = wrong
	}
	if reserved {
		params = jsonscan.Set(params, "_meta", adapt.WithoutReserved(meta))
	}
	return params, err
}

// readMeta keeps what the proxy reads of _meta, and reports whether there are reserved keys.
func (m *Members) readMeta(meta json.RawMessage) (reserved bool, err error) {
	s := spelling{where: "params._meta", names: metaNames}
	jsonscan.Each(meta, func(key, value []byte) bool {
		if i := s.note(key); i >= 0 {
			m.noteMeta(metaNames[i], value)
		}
		reserved = reserved || adapt.IsReserved(key)
		return true
	})
	return reserved, s.err
}

func (m *Members) noteMeta(name string, value json.RawMessage) {
	switch name {
	case progressToken:
		m.Token = value
	case runs.MetaKey:
		m.Key = value
	case trace.Key, trace.OldKey:
		if string(value) == "true" {
			m.Trace = name
		}
	}
}
