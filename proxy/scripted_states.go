package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
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

// A forState makes the response to a request whose run is in a state; again: there is none yet, and the run is read again.
type forState func(c *scriptedCall, ctx context.Context, o runs.Outcome) (resp *backends.Response, again bool, err error)

// forStates are the responses to a stateless client, which can be told to come back, and to a client with a session. A run
// in another state was paused by another request.
var forStates = map[durable.State]struct{ stateless, session forState }{
	durable.Done:      {(*scriptedCall).over, (*scriptedCall).over},
	durable.Failed:    {(*scriptedCall).over, (*scriptedCall).over},
	durable.Cancelled: {(*scriptedCall).over, (*scriptedCall).over},
	durable.Doubt:     {(*scriptedCall).inDoubt, (*scriptedCall).inDoubt},
	durable.Waiting:   {(*scriptedCall).waiting, (*scriptedCall).waitingSession},
	durable.Sleeping:  {(*scriptedCall).sleeping, (*scriptedCall).sleepingSession},
	durable.Running:   {(*scriptedCall).comeBack, (*scriptedCall).stopped},
}

// respond makes the response for the state of a run; again: there is none yet.
func (c *scriptedCall) respond(ctx context.Context, o runs.Outcome, traced json.RawMessage) (resp *backends.Response, again bool, err error) {
	c.x.outcome, c.traced = o.How, traced
	switch {
	case o.Err != nil && runs.TakenOver(o.Err):
		return nil, true, nil
	case o.Err != nil:
		if ctx.Err() != nil || errors.Is(o.Err, context.Canceled) {
			return nil, false, edge.ErrCancelled
		}
		return nil, false, o.Err
	}
	row, ok := forStates[o.State]
	switch {
	case !ok:
		return nil, true, nil
	case c.x.client.Modern():
		return row.stateless(c, ctx, o)
	}
	return row.session(c, ctx, o)
}

// comeBack tells a stateless client to repeat its request, with the answers to the open questions if there are any.
func (c *scriptedCall) comeBack(_ context.Context, o runs.Outcome) (resp *backends.Response, again bool, err error) {
	resp, err = c.inputRequired(o)
	return resp, false, err
}

// stopped is the error for a session while this process is shutting down.
func (c *scriptedCall) stopped(context.Context, runs.Outcome) (resp *backends.Response, again bool, err error) {
	return nil, false, runs.Stopped(c.id, c.p.outlived() && !c.never)
}

// inDoubt is a result that lists the calls that are in doubt, and what can be done.
func (c *scriptedCall) inDoubt(_ context.Context, o runs.Outcome) (resp *backends.Response, again bool, err error) {
	c.x.outcome = observe.Suspended
	resp, err = c.answer(builtins.ErrorResult(c.p.secrets.Text(runs.Doubtful(c.id, o.Doubts, len(o.Questions), c.p.outlived() && !c.never, c.keyed))), o.State, o.Doubts)
	return resp, false, err
}

// over is the response for a run that has ended.
func (c *scriptedCall) over(_ context.Context, o runs.Outcome) (resp *backends.Response, again bool, err error) {
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
	if c.traced != nil {
		result = setMeta(result, c.x.Trace, c.traced)
	}
	resp, err = c.answer(result, state, nil)
	return resp, false, err
}

// answer is the response with a result; state is that of a kept run, "" if the run is not kept, and doubts its calls in doubt.
func (c *scriptedCall) answer(result json.RawMessage, state durable.State, doubts []script.Doubt) (*backends.Response, error) {
	if s := jsonscan.Get(result, "structuredContent"); len(s) > 0 && s[0] != '{' && !c.x.client.Modern() { // it has to be an object before 2026-07-28
		result = jsonscan.Delete(result, func(key string) bool { return key == "structuredContent" })
	}
	if state != "" && !c.never {
		result = setMeta(result, runs.MetaRun, c.p.secrets.JSON(runs.Meta(c.id, state, doubts)))
	}
	return answer(c.p.edit(c.x).Apply(result))
}

func setMeta(result json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	return jsonscan.Set(result, "_meta", jsonscan.Set(wire.OrEmpty(jsonscan.Get(result, "_meta")), key, value))
}

// roundsAfter is between the id of a run and the number of rounds in a state.
const roundsAfter = "#"

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
	c.away(o)
	result := runs.InputRequired(requests.JSON(), c.p.suspended.Seal(kind, c.id+roundsAfter+strconv.Itoa(c.rounds+1), c.x.binding()))
	if !c.never {
		result = setMeta(result, runs.MetaRun, runs.Meta(c.id, o.State, nil))
	}
	return answer(result)
}

// away bounds how long a run in memory is kept for a client that is told to come back. One with an idempotency key may come
// back at any time.
func (c *scriptedCall) away(o runs.Outcome) {
	if !c.never && (c.keyed || c.p.outlived()) {
		return
	}
	until := time.Now().Add(c.p.durable.Load().answerWithin)
	for _, q := range o.Questions {
		if q.Deadline.After(until) {
			until = q.Deadline
		}
	}
	c.p.runs.Away(c.id, c.never, until)
}

// waiting asks a stateless client the questions of a run. One that cannot be asked waits for somebody else's answer.
func (c *scriptedCall) waiting(ctx context.Context, o runs.Outcome) (resp *backends.Response, again bool, err error) {
	switch {
	case c.x.client.CallsBack():
		return c.comeBack(ctx, o)
	case c.p.runs.Stopping():
		return c.stopped(ctx, o)
	}
	again, err = c.rest(ctx, lookAgain)
	return nil, again, err
}

// waitingSession sends the questions of a run to a session.
func (c *scriptedCall) waitingSession(ctx context.Context, o runs.Outcome) (resp *backends.Response, again bool, err error) {
	if c.p.runs.Stopping() && !c.x.client.OnStdio() {
		return c.stopped(ctx, o)
	}
	for _, q := range o.Questions {
		if c.x.client.Can(q.Method) {
			c.ask(ctx, q)
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
	case <-c.alive:
		c.x.stillRunning()
	case <-c.p.runs.UntilStop():
	case <-late.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// sleeping keeps the request of a stateless client open for a while, and then tells the client to come back.
func (c *scriptedCall) sleeping(ctx context.Context, o runs.Outcome) (resp *backends.Response, again bool, err error) {
	left := time.Until(o.Wake)
	if open, ends := c.openFor(); ends {
		left = min(left, open)
	}
	if left <= 0 && time.Until(o.Wake) > 0 || c.p.runs.Stopping() {
		return c.comeBack(ctx, o)
	}
	again, err = c.rest(ctx, min(max(left, time.Millisecond), lookAgain))
	return nil, again, err
}

// sleepingSession keeps the request of a session open.
func (c *scriptedCall) sleepingSession(ctx context.Context, o runs.Outcome) (resp *backends.Response, again bool, err error) {
	if !c.never && c.p.outlived() && c.p.runs.Stopping() {
		return c.stopped(ctx, o)
	}
	again, err = c.rest(ctx, min(max(time.Until(o.Wake), time.Millisecond), lookAgain))
	return nil, again, err
}

const (
	// maxRounds is how many input_required results the client of an SDK takes before it gives up a call.
	maxRounds = 10
	// roundsOfQuestions is how many of them are left for questions.
	roundsOfQuestions = 3
)

// openFor is how much longer the request stays open for a run that sleeps. It does not end so for clients that take only a
// few rounds, once those that can be spent on sleeps are spent, and for clients with a session. Those made with the Go SDK
// take three rounds; they have no timeout of their own.
func (c *scriptedCall) openFor() (left time.Duration, ends bool) {
	if !c.x.client.Modern() || c.rounds >= maxRounds-roundsOfQuestions || strings.HasPrefix(c.x.header.Get("User-Agent"), "Go-http-client/") {
		return 0, false
	}
	return c.p.openTime() - time.Since(c.began), true
}

// hold is the longest sleep for which a run stays in memory: as long as its request stays open, at most runs.hold.
func (c *scriptedCall) hold() time.Duration {
	if left, ends := c.openFor(); ends {
		return left
	}
	return c.p.openTime()
}
