package builtins

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script"
)

// retrying holds the arguments of retry(...).
type retrying struct {
	fn       starlark.Callable
	attempts int
	delay    time.Duration // before the next attempt
	most     time.Duration // bound of one delay
	backoff  float64
	jitter   float64
}

// retry implements retry(fn, max_attempts=3, delay="1s", backoff=2, max_delay="30s", jitter=0.2).
func retry(t *starlark.Thread, fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	r, err := newRetrying(fn, args, kwargs)
	if err != nil {
		return nil, err
	}
	run := script.RunOf(t)
	unsure := run.Unsure(t)
	for attempt := 1; ; attempt++ {
		v, err := r.try(t)
		again, why := worthRetry(v, err)
		if !again || run.Unsure(t) > unsure { // an effect that may not be repeated may have happened
			return v, err
		}
		if attempt == r.attempts {
			return v, gaveUp(attempt, err)
		}
		if err := r.pause(t, attempt, why); err != nil {
			return nil, err
		}
	}
}

func newRetrying(fn *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (*retrying, error) {
	r := &retrying{attempts: 3}
	var delay, most, backoff, jitter starlark.Value
	if err := starlark.UnpackArgs(fn.Name(), args, kwargs, "fn", &r.fn, "max_attempts?", &r.attempts,
		"delay?", &delay, "backoff?", &backoff, "max_delay?", &most, "jitter?", &jitter); err != nil {
		return nil, err
	}
	if r.attempts < 1 {
		return nil, fmt.Errorf("retry: max_attempts: want at least 1, have %d", r.attempts)
	}
	var err error
	if r.delay, err = Duration(delay, time.Second); err != nil {
		return nil, fmt.Errorf("retry: delay: %w", err)
	}
	if r.most, err = Duration(most, 30*time.Second); err != nil {
		return nil, fmt.Errorf("retry: max_delay: %w", err)
	}
	if r.backoff, err = number(backoff, 2); err != nil || r.backoff < 1 {
		return nil, errors.New("retry: backoff: want a number that is at least 1")
	}
	if r.jitter, err = number(jitter, 0.2); err != nil || r.jitter < 0 || r.jitter > 1 {
		return nil, errors.New("retry: jitter: want a number from 0 to 1")
	}
	return r, nil
}

// try calls the function once. Its failures have to be recorded: the script continues after them.
func (r *retrying) try(t *starlark.Thread) (starlark.Value, error) {
	run := script.RunOf(t)
	defer run.Catching(t)()
	return run.Call(t, r.fn, nil, nil)
}

// worthRetry reports whether another attempt could have another outcome, and why this one failed.
func worthRetry(v starlark.Value, err error) (bool, string) {
	if err != nil {
		var failure *script.Failure
		hopeless := errors.As(err, &failure) && !mayPass(failure.Kind)
		return !hopeless && !script.Final(err), err.Error()
	}
	res, ok := v.(starlark.HasAttrs)
	if !ok {
		return false, ""
	}
	if okay, _ := res.Attr("ok"); okay != starlark.False {
		return false, ""
	}
	kind, _ := res.Attr("kind")
	message, _ := res.Attr("error")
	text, _ := message.(starlark.String)
	if k, ok := kind.(starlark.String); ok && !mayPass(string(k)) {
		return false, ""
	}
	return true, string(text)
}

// mayPass reports whether a call that failed with this kind may succeed next time.
func mayPass(kind string) bool {
	switch kind {
	case InvalidInput, Denied, NotFound, invalidAnswer, Unanswerable:
		return false
	}
	return true
}

// gaveUp adds the number of attempts to the error; a value of try_call_tool is returned unchanged.
func gaveUp(attempts int, err error) error {
	switch {
	case err == nil:
		return nil
	case attempts == 1:
		return err
	}
	return fmt.Errorf("retry: gave up after %d attempts: %w", attempts, err)
}

// pause waits before the next attempt. The length is decided once, also for a resumed run.
func (r *retrying) pause(t *starlark.Thread, attempt int, why string) error {
	delay := min(r.delay, r.most)
	r.delay = time.Duration(min(float64(delay)*r.backoff, float64(r.most)))
	args, err := json.Marshal(struct {
		Attempt int    `json:"attempt"`
		Why     string `json:"why"`
	}{attempt, script.Clip(why)})
	if err != nil {
		return err
	}
	delay = time.Duration(float64(delay) * (1 + r.jitter*(2*rand.Float64()-1)))
	if delay == 0 {
		if err := script.Work(t, attemptSteps); err != nil {
			return err
		}
	}
	e := script.Effect{Kind: "retry", Args: args, Repeatable: true, Free: true, Sleep: true, Lasts: delay}
	_, err = script.RunOf(t).Do(t, e, nil)
	return err
}

// attemptSteps is what a failed attempt takes that no pause follows, for its error: its text, its traceback.
const attemptSteps = 50

// number returns an int or a float; fallback for nil.
func number(v starlark.Value, fallback float64) (float64, error) {
	if v == nil || v == starlark.None {
		return fallback, nil
	}
	f, ok := starlark.AsFloat(v)
	if !ok {
		return 0, fmt.Errorf("want a number, have %s", v.Type())
	}
	return f, nil
}
