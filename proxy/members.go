package proxy

import (
	"bytes"
	"encoding/json"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/runs"

	"github.com/vmcp-dev/vmcp/proxy/status"
)

// This part of the package reads the members of a request's params by which the proxy decides.
//
// They are read in one pass, and the same pass refuses params that a backend could decode differently. The proxy uses
// the member that is spelled as in MCP, and passes all members on; a case-insensitive decoder, like that of Go's
// standard library, would take {"name":"shown","Name":"hidden"} for a call of hidden. So a member with a name of the
// protocol has to occur once and in the exact spelling, in params, in _meta and in the ref of a completion. What
// arguments contain is between client and tool.

// member identifies one of the members that Members keeps.
type member int

const (
	meta member = iota // including reserved keys
	memberName
	uri
	arguments
	memberState // requestState
	responses   // inputResponses
	kept        // members above are kept, members below only checked
)

// paramNames are the names in params, in the order of Member first.
var paramNames = []string{
	"_meta", "name", "uri", "arguments", "requestState", "inputResponses",
	"cursor", "ref", "argument", "context", "level", "taskId", "task", "notifications",
}

// metaNames are the names in _meta that the proxy reads; it removes all but the last.
var metaNames = []string{
	wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel,
	wire.MetaServerInfo, wire.MetaSubscriptionID, status.Key, status.OldKey, runs.MetaKey, progressToken,
}

const progressToken = "progressToken"

var refNames = []string{"type", "name", "uri"}

// spelling detects names in an object that occur twice, or in another case.
type spelling struct {
	where string // the object, for messages
	names []string
	seen  uint
	err   error
}

// note processes the next key of the object. It returns the index of the key in names, or -1.
func (s *spelling) note(key []byte) int {
	for i, name := range s.names {
		switch {
		case len(key) < len(name): // an ASCII name is never folded from a shorter one
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

// members are the members of a request's params as received; nil where there is none.
type members struct {
	Token json.RawMessage // the progress token
	Key   json.RawMessage // the idempotency key
	Trace string          // the key of _meta by which the client requests a trace; "" for none

	kept [kept]json.RawMessage
}

// Get returns a member.
func (m *members) Get(which member) json.RawMessage { return m.kept[which] }

// Set replaces a member.
func (m *members) Set(which member, value json.RawMessage) { m.kept[which] = value }

// Read reads the members of params. on is params without the reserved keys of _meta, which no peer may set for another.
// The error is the reason to refuse the request.
func (m *members) Read(params json.RawMessage) (on json.RawMessage, err error) {
	s := spelling{where: "params", names: paramNames}
	var ref json.RawMessage
	jsonscan.Each(params, func(key, value []byte) bool {
		switch i := s.note(key); {
		case i < 0:
		case member(i) < kept:
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
	meta := m.Get(meta)
	if meta == nil {
		return params, err
	}
	reserved, wrong := m.readMeta(meta)
	if err == nil {
		err = wrong
	}
	if reserved {
		params = jsonscan.Set(params, "_meta", runs.WithoutReserved(meta))
	}
	return params, err
}

// readMeta reads _meta, and reports whether it has reserved keys.
func (m *members) readMeta(meta json.RawMessage) (reserved bool, err error) {
	s := spelling{where: "params._meta", names: metaNames}
	jsonscan.Each(meta, func(key, value []byte) bool {
		if i := s.note(key); i >= 0 {
			m.noteMeta(metaNames[i], value)
		}
		reserved = reserved || runs.IsReserved(key)
		return true
	})
	return reserved, s.err
}

func (m *members) noteMeta(name string, value json.RawMessage) {
	switch name {
	case progressToken:
		m.Token = value
	case runs.MetaKey:
		m.Key = value
	case status.Key, status.OldKey:
		if string(value) == "true" {
			m.Trace = name
		}
	}
}
