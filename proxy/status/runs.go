package status

import (
	"encoding/json"
	"time"
)

// Run is a run of a scripted tool: the document of GET /api/v1/runs/ID, and without steps, questions and values an
// element of GET /api/v1/runs, {"runs":[…]}.
type Run struct {
	ID         string    `json:"id"`
	Tool       string    `json:"tool"`
	State      string    `json:"state"` // running, waiting, sleeping, paused, doubt, done, failed or cancelled
	StartedAt  time.Time `json:"startedAt"`
	EndedAt    time.Time `json:"endedAt,omitzero"` // zero while it may continue
	DurationMs float64   `json:"durationMs"`       // from its start to its end, or to now
	Step       *Step     `json:"step,omitempty"`   // the current one, or the last one while the run has not ended
	StepCount  int       `json:"stepCount"`
	Open       int       `json:"openQuestions"` // unanswered ones
	Error      string    `json:"error,omitempty"`
	Kept       bool      `json:"kept"` // it is in the store of runs, and survives a restart if that is durable

	Steps     []Step          `json:"steps,omitempty"`
	LeftOut   int             `json:"leftOut,omitempty"` // number of steps that were not recorded
	Questions []Question      `json:"questions,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // with admin.keepValues, like results; a long value is the beginning of its text
	Result    json.RawMessage `json:"result,omitempty"`
}

// Step is an effect of a run. Its key is its position: "4.b1.0" is the first step of the second branch of the parallel
// at 4, "2/0" the first of the script called at 2.
type Step struct {
	Key        string          `json:"key"`
	Kind       string          `json:"kind"` // call, elicit, sleep, …
	Name       string          `json:"name,omitempty"`
	StartMs    float64         `json:"startMs"` // since the start of the run
	DurationMs float64         `json:"durationMs"`
	Running    bool            `json:"running,omitempty"` // it has not ended
	Bytes      int             `json:"bytes,omitempty"`   // of its result
	Error      string          `json:"error,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
}

// Question is an open question of a run to a person.
type Question struct {
	Key      string          `json:"key"`
	Method   string          `json:"method"`
	Message  string          `json:"message"`
	Schema   json.RawMessage `json:"requestedSchema,omitempty"` // of the answer; none: it asks for consent
	Deadline time.Time       `json:"deadline,omitzero"`
}

// Final reports whether the run has ended.
func (r Run) Final() bool { return r.State == "done" || r.State == "failed" || r.State == "cancelled" }
