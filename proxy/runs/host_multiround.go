package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"

	"github.com/vmcp-dev/vmcp/proxy/edge"

	"github.com/vmcp-dev/vmcp/script"
)

// Requests that a backend makes during a call of a script become questions of the run; see proxy/runs, Part.Question.

// A round is an input_required result of a stateless backend, as the journal keeps it with the call that continues
// after the answers.
type round struct {
	Leg   int               `json:"leg"`             // number of earlier rounds
	State json.RawMessage   `json:"state,omitempty"` // requestState of the backend
	Keys  map[string]string `json:"keys"`            // keys of its questions in the run, by their keys in inputRequests
	kept  bool              // the journal has the round, and the store its questions
}

// CallMultiRound calls a backend for a script. If a stateless backend requires input, the run is suspended, and a later
// part repeats the request with the answers and the requestState.
func (c *HostCall) CallMultiRound(ctx context.Context, be *backends.Backend, req *backends.Request) (*backends.Response, error) {
	var at *round
	if held := script.SavedState(ctx); held != nil {
		at = &round{kept: true}
		if err := json.Unmarshal(held, at); err != nil {
			return nil, err
		}
	}
	for at == nil || at.Leg < MaxRounds {
		next, err := c.goOn(ctx, be, req, at)
		if err != nil {
			return nil, err
		}
		resp, err := be.Call(ctx, next)
		if err != nil {
			return nil, err
		}
		asked, err := AskedFor(resp, edge.MaxFrame)
		if err == nil && asked == nil {
			return resp, nil
		}
		if err == nil {
			at, err = c.nextRound(asked, at)
		}
		resp.Close()
		if err != nil {
			return nil, err
		}
	}
	return nil, wire.Errorf(wire.InternalError, "backend %s required input %d times for one call, which is the limit", be.Name(), MaxRounds)
}

// nextRound is the round for an input_required result.
func (c *HostCall) nextRound(result json.RawMessage, last *round) (*round, error) {
	next := &round{State: slices.Clone(jsonscan.Get(result, "requestState")), Keys: map[string]string{}}
	if last != nil {
		next.Leg = last.Leg + 1
	}
	var err error
	jsonscan.Each(jsonscan.Get(result, "inputRequests"), func(key, request []byte) bool {
		var q script.Question
		q, err = c.question(next.Leg, string(key), jsonscan.GetString(request, "method"), jsonscan.Get(request, "params"))
		next.Keys[string(key)] = q.Key
		return err == nil
	})
	return next, err
}

// question is a backend's request as a question of the run. A connected client that does not support it counts as an
// answer: an error. If no client is connected, the question stays open.
func (c *HostCall) question(leg int, name, method string, params json.RawMessage) (script.Question, error) {
	if !c.Host.x.Client().Can(method) {
		return script.Question{}, CannotBeAsked(method)
	}
	return c.Host.part.Question(c.Options.Key, leg, name, method, jsonscan.Compact(params), c.Host.tool.Limits.ElicitTimeout.Std())
}

// goOn is the request with the answers of a round. While answers are missing, it suspends the run.
func (c *HostCall) goOn(ctx context.Context, be *backends.Backend, req *backends.Request, at *round) (*backends.Request, error) {
	if at == nil {
		return req, nil
	}
	var answers jsonscan.Object
	missing := &script.Suspended{}
	for _, name := range slices.Sorted(maps.Keys(at.Keys)) {
		key := at.Keys[name]
		if err := c.Host.refused[key]; err != nil {
			return nil, err
		}
		a := c.Host.part.Answer(key)
		if a != nil {
			answers.Raw(name, a)
			continue
		}
		q, ok := c.Host.part.Known(key)
		if !ok || !q.Deadline.IsZero() && !time.Now().Before(q.Deadline) {
			return nil, &builtins.ToolError{Kind: builtins.Timeout, Msg: fmt.Sprintf("backend %s required input, and no answer arrived in time", be.Name())}
		}
		missing.Questions = append(missing.Questions, q)
		if missing.Wake.IsZero() || q.Deadline.Before(missing.Wake) {
			missing.Wake = q.Deadline
		}
	}
	if len(missing.Questions) == 0 {
		return Answering(req, answers.JSON(), at.State), script.GoOn(ctx)
	}
	held, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	if !at.kept { // the journal must not name questions that the store does not have
		if err := c.Host.part.StoreQuestions(ctx, missing.Questions...); err != nil {
			return nil, err
		}
	}
	script.SaveState(ctx, held)
	return nil, missing
}

// Ask makes a question of a backend's request during the call, and waits for the answer.
func (c *HostCall) Ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	params = jsonscan.Compact(params)
	name := digest([]byte(method), params)
	q, err := c.question(0, fmt.Sprintf("%s.%d", name, c.asked.next(name)), method, params)
	if err != nil {
		return nil, err
	}
	return c.Host.part.Ask(ctx, q)
}

// repeats counts equal questions within one attempt of a call.
type repeats struct {
	mu    sync.Mutex
	times map[string]int // guarded by mu
}

// next is the number of earlier questions of that name.
func (r *repeats) next(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == nil {
		r.times = map[string]int{}
	}
	n := r.times[name]
	r.times[name]++
	return n
}
