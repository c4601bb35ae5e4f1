package runs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	store "github.com/vmcp-dev/vmcp/runs"
	"github.com/vmcp-dev/vmcp/script"
)

// Members of _meta.
const (
	// MetaRun is in every response of a kept run: its id and state.
	MetaRun = "dev.vmcp/run"
	// MetaKey is the idempotency key of a request: of a client, of whose equal requests one is
	// done; of a script to a backend, RUN/KEY.
	MetaKey = "dev.vmcp/idempotencyKey"
)

// ValidKey reports whether a client may call a request so.
func ValidKey(key string) bool {
	return key != "" && len(key) <= 128 && !strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' })
}

// Meta is the value of MetaRun.
func Meta(id string, state store.State) json.RawMessage {
	return new(jsonscan.Object).Text("id", id).Text("state", string(state)).JSON()
}

// Doubtful is what a client is told of a run in doubt: which calls it is about, and what to do.
func Doubtful(id string, doubts []script.Doubt, questions int) string {
	var b strings.Builder
	b.WriteString("the run is in doubt: it is not known whether this was done, so it is not repeated")
	for _, d := range doubts {
		fmt.Fprintf(&b, "\n  %s at %s", script.Effect{Kind: d.Kind, Name: d.Name}, d.Key)
	}
	fmt.Fprintf(&b, "\nFind out, and say so: vmcp runs resolve %s", id)
	if len(doubts) == 1 {
		b.WriteString(" " + doubts[0].Key)
	}
	b.WriteString(" --done JSON, --failed TEXT or --repeat. The same request goes on then.")
	if questions > 0 {
		fmt.Fprintf(&b, "\nThe run also waits for %d answers.", questions)
	}
	return b.String()
}

// stands is how a run stands that nothing is done for at the moment.
func stands(r store.Run, entries []script.Entry) *Outcome {
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
