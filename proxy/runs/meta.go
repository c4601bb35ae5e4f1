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

// Meta is the value of MetaRun.
func Meta(id string, state store.State) json.RawMessage {
	return new(jsonscan.Object).Text("id", id).Text("state", string(state)).JSON()
}

// Doubtful is the text for a client of a run in doubt: the calls, and what to do.
func Doubtful(id string, doubts []script.Doubt, questions int) string {
	var b strings.Builder
	b.WriteString("the run is in doubt: it is unknown whether these calls were executed, so they are not repeated")
	for _, d := range doubts {
		fmt.Fprintf(&b, "\n  %s at %s", script.Effect{Kind: d.Kind, Name: d.Name}, d.Key)
	}
	fmt.Fprintf(&b, "\nFind out, and report it: vmcp runs resolve %s", id)
	if len(doubts) == 1 {
		b.WriteString(" " + doubts[0].Key)
	}
	b.WriteString(" --done JSON, --failed TEXT or --repeat. Repeat the request afterwards.")
	if questions > 0 {
		fmt.Fprintf(&b, "\nThe run also waits for %d answers.", questions)
	}
	return b.String()
}

// stands is the state of a run that is not in progress.
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
