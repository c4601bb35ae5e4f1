package proxy

import (
	"bytes"
	"encoding/json"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/adapt"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/proxy/trace"
)

// The members of a request's params that the proxy decides by are read in one pass, and the
// same pass refuses what a backend may read differently. The proxy decides by the member
// that is spelled as MCP spells it and passes all of them on; a decoder that ignores case,
// as that of Go's standard library does, would take {"name":"shown","Name":"hidden"} for a
// call of hidden. So a member that has a name of the protocol stands there once and in that
// spelling, in params, in _meta and in the ref of a completion. What is inside of arguments
// is between client and tool.

// member is a place in exchange.members.
type member int

const (
	memberMeta member = iota
	memberName
	memberURI
	memberArguments
	memberState
	memberResponses
	kept // those above are kept; those below are only looked at
)

// paramNames are the names of members in params, in the order of member first.
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

// readParams keeps the members of x.params that the proxy asks for. x.invalid is why the
// request is refused, if it is.
func (x *exchange) readParams() {
	s := spelling{where: "params", names: paramNames}
	var ref json.RawMessage
	jsonscan.Each(x.params, func(key, value []byte) bool {
		switch i := s.note(key); {
		case i < 0:
		case member(i) < kept:
			x.members[i] = value
		case paramNames[i] == "ref":
			ref = value
		}
		return true
	})
	if x.invalid = s.err; x.invalid == nil && ref != nil {
		r := spelling{where: "params.ref", names: refNames}
		jsonscan.Each(ref, func(key, _ []byte) bool { r.note(key); return true })
		x.invalid = r.err
	}
	if meta := x.get(memberMeta); meta != nil {
		x.readMeta(meta)
	}
}

// readMeta keeps the progress token and takes off what belongs to the protocol: no peer
// may speak for another.
func (x *exchange) readMeta(meta json.RawMessage) {
	s := spelling{where: "params._meta", names: metaNames}
	reserved := false
	jsonscan.Each(meta, func(key, value []byte) bool {
		if i := s.note(key); i >= 0 {
			x.noteMeta(metaNames[i], value)
		}
		reserved = reserved || adapt.IsReserved(key)
		return true
	})
	if x.invalid == nil {
		x.invalid = s.err
	}
	if reserved {
		x.params = jsonscan.Set(x.params, "_meta", adapt.WithoutReserved(meta))
	}
}

func (x *exchange) noteMeta(name string, value json.RawMessage) {
	switch name {
	case progressToken:
		x.token = value
	case runs.MetaKey:
		x.key = value
	case trace.Key, trace.OldKey:
		if string(value) == "true" {
			x.trace, x.traceAll = name, edge.SeesDetails(x.out)
		}
	}
}

// get is a member of the client's params, nil if there is none. The reserved keys are still
// in memberMeta.
func (x *exchange) get(m member) json.RawMessage { return x.members[m] }
