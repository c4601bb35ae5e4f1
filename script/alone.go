package script

import (
	"context"
	"encoding/json"
	"errors"

	"go.starlark.net/starlark"
)

// Charges are not refunded while a run lasts: only the interpreter knows which values are still referenced, since
// branches in the middle of an instruction hold operands that nothing else can see. A called run is different. It
// shares no value with its caller, so at its end all its memory is garbage, except for its result, which the caller is
// charged for, and what a trace keeps of its effects. Scripts use this to process more data than limits.memory: each
// part in a called run, of another tool or of a function (CallAlone).

// refund returns the memory of a run, which has ended, to the run that called it.
func (r *Run) refund(caller *branch) {
	effects := r.effects + r.inner.Load()
	caller.run.inner.Add(effects)
	r.ledger.Refund(effects * effectBytes)
	q := r.request()
	q.Tenant.Return(q.Charged())
}

// CheckAlone returns why CallAlone cannot call fn, or nil.
func (r *Run) CheckAlone(fn starlark.Value) error {
	f, ok := fn.(*starlark.Function)
	if !ok {
		return errors.New("want a function, have " + fn.Type())
	}
	if f.Position().Filename() != r.program.compiled.Main.Source.Shown() || f.Globals()[f.Name()] != fn {
		return errors.New("want a function that is defined at the top level of this file: it runs apart from everything else")
	}
	return nil
}

// CallAlone calls fn, which CheckAlone has accepted, with a JSON value in a separate run, inside the effect that ctx
// belongs to. That run has no host, so fn can only compute, and it executes the top level of the file again. The
// result is JSON.
func (r *Run) CallAlone(ctx context.Context, fn starlark.Value, arg json.RawMessage) (json.RawMessage, error) {
	name := fn.(*starlark.Function).Name()
	if r.worker != nil {
		return callerOf(ctx).nearAlone(name, arg)
	}
	return r.callAlone(ctx, name, arg)
}

func (r *Run) callAlone(ctx context.Context, name string, arg json.RawMessage) (json.RawMessage, error) {
	res, err := r.program.Run(ctx, RunOptions{entry: name, Args: arg, Limits: r.limits, Print: r.print, session: r.session})
	switch {
	case err != nil && (Final(err) || ctx.Err() != nil):
		return nil, err
	case err != nil:
		return nil, &Failure{Kind: "error", Message: Clip(err.Error())}
	case res.Structured == nil:
		return nil, &Failure{Kind: "error", Message: "want a value, have content blocks"}
	}
	return res.Structured, nil
}
