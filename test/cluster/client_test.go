//go:build suites

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/test/raw"
)

// A run is one run of a scripted tool, made by a client of 2026-07-28 whose requests go to one URL.
type run struct {
	w        *world
	kind, id string
	repeats  bool // requests that get no answer are repeated, under an idempotency key
	client   *raw.Client

	name     string          // of the run at the replicas, once it is known
	asked    map[string]bool // questions
	answered map[string]bool // those to whose answer something else was the response
	again    []string        // those that were asked again after it
	doubt    bool
	result   []string
}

// answer is the response to a call of a tool.
type answer struct {
	ResultType    string
	RequestState  string
	InputRequests map[string]struct {
		Method string
		Params struct{ Message string }
	}
	IsError           bool
	Content           []struct{ Text string }
	StructuredContent json.RawMessage
	Meta              struct {
		Run struct{ ID, State string } `json:"dev.vmcp/run"`
	} `json:"_meta"`
}

func (w *world) newRun(url, kind, id string) *run {
	return &run{
		w: w, kind: kind, id: id, asked: map[string]bool{}, answered: map[string]bool{},
		client: &raw.Client{URL: url, Revision: raw.Modern, Capabilities: `{"elicitation":{}}`},
	}
}

// call makes one request of the run; more are further params besides the name and the arguments.
func (r *run) call(ctx context.Context, more string) (*answer, error) {
	if r.repeats {
		r.client.Meta = fmt.Sprintf(`,"dev.vmcp/idempotencyKey":%q`, r.id)
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	result, err := r.client.Call(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"id":%q}%s}`, r.kind, r.id, more))
	if err != nil {
		return nil, err
	}
	a, err := read(result)
	if err == nil {
		r.name = a.Meta.Run.ID
	}
	return a, err
}

func read(result []byte) (*answer, error) {
	var a answer
	if err := json.Unmarshal(result, &a); err != nil {
		return nil, fmt.Errorf("%w: %s", err, result)
	}
	return &a, nil
}

// drive repeats requests until the run has ended or is in doubt.
func (r *run) drive(ctx context.Context) error { return r.from(ctx, "") }

// from is drive from a request on.
func (r *run) from(ctx context.Context, more string) error {
	for began := time.Now(); ; {
		if time.Since(began) > 2*testTimeout {
			return fmt.Errorf("%s: no end in %s", r.id, 2*testTimeout)
		}
		a, err := r.call(ctx, more)
		var refused *raw.Error
		switch {
		case err != nil && r.repeats && !(errors.As(err, &refused) && refused.Code == -32602):
			<-time.After(20 * time.Millisecond)
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", r.id, err)
		}
		if a.ResultType != "input_required" {
			return r.ended(a)
		}
		more = r.next(a)
	}
}

// next is the part of the next request that answers all questions.
func (r *run) next(a *answer) string {
	for key := range r.asked {
		if _, still := a.InputRequests[key]; !still {
			r.answered[key] = true
		}
	}
	var all []string
	for key, q := range a.InputRequests {
		if r.answered[key] {
			r.again = append(r.again, key)
		}
		r.asked[key] = true
		all = append(all, fmt.Sprintf(`%q:{"action":"accept","content":{"a":%q}}`, key, q.Params.Message+"!"))
	}
	return fmt.Sprintf(`,"inputResponses":{%s},"requestState":%q`, strings.Join(all, ","), a.RequestState)
}

// ended stores the result.
func (r *run) ended(a *answer) error {
	if r.doubt = a.Meta.Run.State == "doubt"; r.doubt {
		return nil
	}
	if a.IsError {
		return fmt.Errorf("%s: %+v", r.id, a.Content)
	}
	result := []byte(a.StructuredContent)
	if result == nil && len(a.Content) > 0 { // before 2026-07-28 structured content is an object
		result = []byte(a.Content[0].Text)
	}
	return json.Unmarshal(result, &r.result)
}

// check compares the result and the effects of the run with the expected ones.
func (r *run) check() error {
	var want []string
	var wrong []error
	for _, what := range effects(r.kind, r.id) {
		want = append(want, what+"!")
		if n := r.w.ledger.did(what); n > 1 || n == 0 && r.kind != "tries" {
			wrong = append(wrong, fmt.Errorf("%s was done %d times", what, n))
		}
	}
	if !slices.Equal(r.result, want) {
		wrong = append(wrong, fmt.Errorf("%s ended with %q, want %q (run %s)", r.id, r.result, want, r.name))
	}
	if len(r.again) > 0 {
		wrong = append(wrong, fmt.Errorf("%s was asked again after its answers were taken: %q", r.id, r.again))
	}
	return errors.Join(wrong...)
}

// did is the output of the backend of a run's kind after an effect: backends that ask add the answer.
func (r *run) did(what string) string {
	if r.kind == "reserves" || r.kind == "books" {
		return what + "!"
	}
	return what
}

// resolve resolves every call in doubt by the ledger.
func (r *run) resolve() error {
	var shown struct {
		Doubts []struct {
			Key       string
			Arguments thing
		}
	}
	if err := json.Unmarshal(r.w.command("runs", "show", r.name, "-o", "json"), &shown); err != nil || len(shown.Doubts) == 0 {
		return fmt.Errorf("%s: vmcp runs show: %w, %d doubts", r.id, err, len(shown.Doubts))
	}
	for _, d := range shown.Doubts {
		how := []string{"--repeat"}
		if r.w.ledger.did(d.Arguments.What) > 0 {
			how = []string{"--done", fmt.Sprintf(`{"did":%q}`, r.did(d.Arguments.What))}
		}
		r.w.command(append([]string{"runs", "resolve", r.name, d.Key}, how...)...)
	}
	return nil
}
