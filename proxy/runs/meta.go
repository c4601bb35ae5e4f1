package runs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// Members of _meta.
const (
	// MetaRun has the id and the state of a run; it is in every response of a kept run.
	MetaRun = "dev.vmcp/run"
	// MetaKey is the idempotency key of a request: a client's (equal requests are executed once), or that of a script's
	// call to a backend, RUN/KEY.
	MetaKey = "dev.vmcp/idempotencyKey"
)

// ValidKey reports whether a client may use an idempotency key.
func ValidKey(key string) bool {
	return key != "" && len(key) <= 128 && !strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' })
}

// Meta is the value of MetaRun. For a run in doubt it has the calls whose outcome is not known: the key of the effect, which
// vmcp runs resolve takes, the tool, and where in the script (at) and why (cause) if that is known.
func Meta(id string, state durable.State, doubts []script.Doubt) json.RawMessage {
	o := new(jsonscan.Object).Text("id", id).Text("state", string(state))
	if len(doubts) > 0 {
		calls := make([]json.RawMessage, len(doubts))
		for i, d := range doubts {
			call := new(jsonscan.Object).Text("key", d.Key).Text("name", d.Name)
			if d.Pos != "" {
				call.Text("at", d.Pos)
			}
			if d.Why != "" {
				call.Text("cause", d.Why)
			}
			calls[i] = call.JSON()
		}
		list, _ := json.Marshal(calls) // of valid JSON
		o.Text("reason", "doubt").Raw("calls", list)
	}
	return o.JSON()
}

// Doubtful is the text for a client of a run in doubt: what happened, and what an operator can do about it if the run is in a
// store that other processes reach (stored). A repeated request finds the run by its idempotency key only (keyed).
func Doubtful(id string, doubts []script.Doubt, questions int, stored, keyed bool) string {
	var b strings.Builder
	b.WriteString("the run stopped in doubt:")
	for _, d := range doubts {
		b.WriteString("\n  " + d.String())
	}
	switch {
	case !stored:
		b.WriteString("\nThe run is in the memory of the server, and ends with it. Another request begins another run, which makes all calls again.")
	case keyed:
		fmt.Fprintf(&b, "\nAn operator who has found out reports it, and the same request with its idempotency key then gets the result: vmcp runs resolve %s", id)
	default:
		fmt.Fprintf(&b, "\nAnother request begins another run, which makes all calls again. An operator who has found out continues this one: vmcp runs resolve %s", id)
	}
	if stored {
		if len(doubts) == 1 {
			b.WriteString(" " + doubts[0].Key)
		}
		b.WriteString(" --done JSON, --failed TEXT or --repeat.")
	}
	if questions > 0 {
		fmt.Fprintf(&b, "\nThe run also waits for %d answers.", questions)
	}
	return b.String()
}

// stands is the state of a run that is not in progress.
func stands(r durable.Run, entries []script.Entry) *Outcome {
	o := &Outcome{State: r.State, Result: r.Result, Error: r.Error, Wake: r.Wake, Kept: true}
	for _, q := range r.Questions {
		if q.Answer == nil {
			o.Questions = append(o.Questions, script.Question{Key: q.Key, Method: q.Method, Params: q.Params, Deadline: q.Deadline})
		}
	}
	for _, key := range r.Doubts {
		d := script.Doubt{Key: key, Kind: "call"}
		if i := slices.IndexFunc(entries, func(e script.Entry) bool { return e.Key == key }); i >= 0 {
			e := entries[i]
			d = script.Doubt{Key: key, Kind: e.Kind, Name: e.Name, Args: e.Args, Began: e.Began}
		}
		o.Doubts = append(o.Doubts, d)
	}
	return o
}
