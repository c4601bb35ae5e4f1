package runs

import (
	"encoding/json"

	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/script"
)

// Settings are what a run goes on with beside its program and its arguments, whatever is
// configured by then. They are stored with the run.
type Settings struct {
	Limits       script.Limits   `json:"limits"`
	Entry        string          `json:"entry,omitempty"` // the function that is called; "" is run
	OnDoubt      string          `json:"onDoubt,omitempty"`
	OnDisconnect string          `json:"onDisconnect,omitempty"`
	Isolated     bool            `json:"isolated,omitempty"`
	Whole        bool            `json:"whole,omitempty"`   // limits.time is from its beginning to its end
	Output       json.RawMessage `json:"output,omitempty"`  // the schema of what it returns
	Can          json.RawMessage `json:"can,omitempty"`     // capabilities of the client that began it
	Who          json.RawMessage `json:"who,omitempty"`     // who began it, see auth.Principal.Keep
	Profile      string          `json:"profile,omitempty"` // that it was begun through; "" is none
	Audit        string          `json:"audit,omitempty"`   // the run that lines of the audit name
	Trace        string          `json:"trace,omitempty"`   // traceparent of the first request
}

// JSON is the form in which they are stored.
func (s Settings) JSON() json.RawMessage {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // texts and numbers, and JSON that was read as such
	}
	return text
}

// settingsOf reads the settings of a run.
func settingsOf(r store.Run) (s Settings, err error) {
	err = json.Unmarshal(r.Limits, &s)
	return s, err
}

// ProgramOf is a program as it is stored.
func ProgramOf(p *script.Program) store.Program {
	return store.Program{Main: p.Name(), Files: p.Sources(), Engine: script.Engine, Hash: p.Hash()}
}
