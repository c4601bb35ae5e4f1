package conn

import (
	"encoding/json"
	"slices"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// Peer is the serverInfo, capabilities, instructions and revision of a server.
type Peer struct {
	Revision     string
	ServerInfo   json.RawMessage
	Capabilities json.RawMessage
	Instructions string
}

// initialized reads the result of initialize.
func initialized(result []byte) Peer {
	return Peer{
		Revision:     jsonscan.GetString(result, "protocolVersion"),
		ServerInfo:   slices.Clone(jsonscan.Get(result, "serverInfo")),
		Capabilities: slices.Clone(jsonscan.Get(result, "capabilities")),
		Instructions: jsonscan.GetString(result, "instructions"),
	}
}

// discovered reads the result of server/discover. legacyToo is set when the server supports a revision
// with sessions as well; ok is false when it does not support the modern one.
func discovered(result []byte) (p Peer, legacyToo, ok bool) {
	var d struct{ SupportedVersions []string }
	if json.Unmarshal(result, &d) != nil || !slices.Contains(d.SupportedVersions, wire.Rev2607) {
		return p, false, false
	}
	p = initialized(result)
	p.Revision = wire.Rev2607
	if info := jsonscan.GetPath(result, "_meta", wire.MetaServerInfo); info != nil {
		p.ServerInfo = slices.Clone(info)
	}
	return p, slices.ContainsFunc(d.SupportedVersions, func(v string) bool { return slices.Contains(wire.Legacy, v) }), true
}
