package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/observe"
	"github.com/vmcp-dev/vmcp/proxy/runs"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// respond makes the response for the state of a run; again: there is none yet.
func (c *scriptedCall) respond(ctx context.Context, o runs.Outcome, traced json.RawMessage) (resp *backends.Response, again bool, err error) {
	c.x.outcome = o.How
	switch {
	case o.Err != nil && runs.TakenOver(o.Err):
		return nil, true, nil
	case o.Err != nil:
		if ctx.Err() != nil || errors.Is(o.Err, context.Canceled) {
			return nil, false, edge.ErrCancelled
		}
		return nil, false, o.Err
	}
	switch o.State {
	case durable.Done, durable.Failed, durable.Cancelled:
		resp, err = c.over(o, traced)
		return resp, false, err
	case durable.Doubt:
		c.x.outcome = observe.Suspended
		resp, err = c.answer(builtins.ErrorResult(c.p.secrets.Text(runs.Doubtful(c.id, o.Doubts, len(o.Questions), c.p.outlived() && !c.never, c.keyed))), o.State)
		return resp, false, err
	case durable.Waiting:
		return c.waiting(ctx, o)
	case durable.Sleeping:
		return c.sleeping(ctx, o)
	case durable.Running: // stopped: this process is shutting down
		if c.x.client.Modern() {
			resp, err = c.inputRequired(o)
			return resp, false, err
		}
		return nil, false, runs.Stopped(c.id, c.p.outlived() && !c.never)
	}
	return nil, true, nil // paused by another request
}

// over is the response for a run that has ended.
func (c *scriptedCall) over(o runs.Outcome, traced json.RawMessage) (*backends.Response, error) {
	result, state := o.Result, o.State
	switch {
	case o.State == durable.Cancelled:
		c.x.outcome = observe.Cancelled
		result = builtins.ErrorResult("the run was cancelled: " + cmp.Or(o.Error, "no reason was given"))
	case result == nil:
		result = builtins.ErrorResult(c.p.secrets.Text(cmp.Or(o.Error, "the run failed")))
	}
	if c.x.outcome == observe.NotYet && o.State == durable.Failed {
		c.x.outcome = observe.ToolError
	}
	if !o.Kept {
		state = ""
	}
	if traced != nil {
		result = setMeta(result, c.x.Trace, traced)
	}
	return c.answer(result, state)
}

// answer is the response with a result; state is that of a kept run, "" if the run is not kept.
func (c *scriptedCall) answer(result json.RawMessage, state durable.State) (*backends.Response, error) {
	if s := jsonscan.Get(result, "structuredContent"); len(s) > 0 && s[0] != '{' && !c.x.client.Modern() { // it has to be an object before 2026-07-28
		result = jsonscan.Delete(result, func(key string) bool { return key == "structuredContent" })
	}
	if state != "" && !c.never {
		result = setMeta(result, runs.MetaRun, runs.Meta(c.id, state))
	}
	return answer(c.p.edit(c.x).Apply(result))
}

func setMeta(result json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	return jsonscan.Set(result, "_meta", jsonscan.Set(wire.OrEmpty(jsonscan.Get(result, "_meta")), key, value))
}

// inputRequired is the input_required result with the open questions, or without any.
func (c *scriptedCall) inputRequired(o runs.Outcome) (*backends.Response, error) {
	var requests jsonscan.Object
	for _, q := range o.Questions {
		requests.Raw(q.Key, runs.InputRequest(q.Method, q.Params))
	}
	kind := runs.SuspendedRun
	if c.never {
		kind = runs.Never
	}
	c.x.outcome = observe.Suspended
	result := runs.InputRequired(requests.JSON(), c.p.suspended.Seal(kind, c.id, c.x.binding()))
	if !c.never {
		result = setMeta(result, runs.MetaRun, runs.Meta(c.id, o.State))
	}
	return answer(result)
}

// waiting asks the questions of a run, in the way that the client supports.
func (c *scriptedCall) waiting(ctx context.Context, o runs.Outcome) (resp *backends.Response, again bool, err error) {
	client := c.x.client
	if client.Modern() && client.CallsBack() {
		resp, err = c.inputRequired(o)
		return resp, false, err
	}
	if c.p.runs.Stopping() && !client.OnStdio() {
		return nil, false, runs.Stopped(c.id, c.p.outlived() && !c.never)
	}
	if client.Session != nil {
		for _, q := range o.Questions {
			if client.Can(q.Method) {
				c.ask(ctx, q)
			}
		}
	}
	again, err = c.rest(ctx, lookAgain)
	return nil, again, err
}

// ask sends a question to a session, once per request. The answer is stored like any other.
func (c *scriptedCall) ask(ctx context.Context, q script.Question) {
	if c.asking[q.Key] {
		return
	}
	c.asking[q.Key] = true
	request := c.x.asker() // now, since the next part of the run may begin before the goroutine
	c.p.spawn(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if !q.Deadline.IsZero() {
			ctx, cancel = context.WithDeadline(ctx, q.Deadline)
			defer cancel()
		}
		a, err := request(ctx, q.Method, q.Params)
		if err == nil {
			err = c.p.runs.Answer(ctx, c.id, q.Key, a, c.never)
		}
		if err != nil {
			c.notAnswered(ctx, q, err)
		}
		select {
		case c.answered <- struct{}{}:
		default:
		}
	})
}

// notAnswered records why there is no answer: an error of the client is an answer, whereas a session that has ended
// leaves the question open.
func (c *scriptedCall) notAnswered(ctx context.Context, q script.Question, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rpc *wire.Error
	switch {
	case ctx.Err() != nil, c.p.runs.Stopping() && !c.x.client.OnStdio(): // waiting says why
	case errors.As(err, &rpc) && rpc.Raw != nil:
		if c.refused == nil {
			c.refused = map[string]error{}
		}
		c.refused[q.Key] = err
	default:
		c.lost = err
	}
}

// toTell reports whether the run has to be resumed for the client's refusals.
func (c *scriptedCall) toTell() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.refused) > 0
}

// lookAgain is how long a request waits for a change of the store before it reads its run again.
const lookAgain = 5 * time.Second

// rest is await for a run that no part executes. If the client leaves meanwhile, it may be the run's end.
func (c *scriptedCall) rest(ctx context.Context, d time.Duration) (again bool, err error) {
	if err = c.await(ctx, d); err != nil {
		c.p.runs.Abandon(c.id, c.never)
	}
	return err == nil, err
}

// await waits until the run may continue, at most for d.
func (c *scriptedCall) await(ctx context.Context, d time.Duration) error {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-c.changed:
	case <-c.answered:
	case <-c.p.runs.UntilStop():
	case <-late.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// sleeping waits for a while, and then answers a stateless client with input_required.
func (c *scriptedCall) sleeping(ctx context.Context, o runs.Outcome) (resp *backends.Response, again bool, err error) {
	left := time.Until(o.Wake)
	if !c.x.client.Modern() && !c.never && c.p.outlived() && c.p.runs.Stopping() {
		return nil, false, runs.Stopped(c.id, c.p.outlived() && !c.never)
	}
	if c.x.client.Modern() {
		hold := c.p.openTime() - time.Since(c.began)
		if hold <= 0 || c.p.runs.Stopping() {
			resp, err = c.inputRequired(o)
			return resp, false, err
		}
		left = min(left, hold)
	}
	again, err = c.rest(ctx, min(max(left, time.Millisecond), lookAgain))
	return nil, again, err
}
