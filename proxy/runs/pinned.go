package runs

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// Settings are what a run is resumed with, in addition to program and arguments, regardless of the current
// configuration. They are stored with the run.
type Settings struct {
	Limits       script.Limits   `json:"limits"`
	Entry        string          `json:"entry,omitempty"` // the function to call; "" is run
	OnDoubt      string          `json:"onDoubt,omitempty"`
	OnDisconnect string          `json:"onDisconnect,omitempty"`
	Isolated     bool            `json:"isolated,omitempty"`
	Whole        bool            `json:"whole,omitempty"`     // limits.time bounds the whole run
	Output       json.RawMessage `json:"output,omitempty"`    // schema of the result
	Can          json.RawMessage `json:"can,omitempty"`       // capabilities of the client that began it
	Who          json.RawMessage `json:"who,omitempty"`       // principal that began it, see auth.Principal.Encode
	Stateless    bool            `json:"stateless,omitempty"` // the client that began it has no session
	Profile      string          `json:"profile,omitempty"`   // of the client that began it; "" is none
	Audit        string          `json:"audit,omitempty"`     // id of the run in audit events
	Trace        string          `json:"trace,omitempty"`     // traceparent of the first request
}

// JSON is the stored form.
func (s Settings) JSON() json.RawMessage {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a bug: strings, numbers and valid JSON
	}
	return text
}

// settingsOf decodes the settings of a run.
func settingsOf(r durable.Run) (s Settings, err error) {
	err = json.Unmarshal(r.Limits, &s)
	return s, err
}

// ProgramOf is the stored form of a program.
func ProgramOf(p *script.Program) durable.Program {
	return durable.Program{Main: p.Name(), Files: p.Sources(), Engine: script.Engine, Hash: p.Hash()}
}
