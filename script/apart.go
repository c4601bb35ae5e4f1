package script

import (
	"context"
	"encoding/json"
	"errors"

	"go.starlark.net/starlark"
)

// Charges are not refunded, because what a value no longer holds cannot be told from what
// somebody keeps: the operands of other branches, in the middle of their instructions, can
// be seen by nobody but the interpreter. A run of its own is another matter. It shares no
// value with the run that has called it, so at its end all of its memory is garbage, but
// for its result, which its caller is charged for, and what a trace keeps of its effects.
// That is how a script works through more data than it may hold: each part in a run of
// its own, of another tool or of a function (Apart).

// refund gives back the memory of a run that another one has called.
func (r *Run) refund(caller *branch) {
	effects := r.effects + r.inner.Load()
	caller.run.inner.Add(effects)
	r.ledger.Refund(effects * effectBytes)
}

// CheckApart says why fn cannot run apart.
func (r *Run) CheckApart(fn starlark.Value) error {
	f, ok := fn.(*starlark.Function)
	if !ok {
		return errors.New("want a function, have " + fn.Type())
	}
	if f.Position().Filename() != r.program.compiled.Main.Source.Shown() || f.Globals()[f.Name()] != fn {
		return errors.New("want a function that is defined at the top level of this file: it runs apart from everything else")
	}
	return nil
}

// Apart calls the function fn, which CheckApart has accepted, with a JSON value in a run
// of its own, inside of the effect that ctx belongs to. The run has no host, so fn only
// computes; it sees what the top level of the file makes, anew. The result is JSON.
func (r *Run) Apart(ctx context.Context, fn starlark.Value, arg json.RawMessage) (json.RawMessage, error) {
	name := fn.(*starlark.Function).Name()
	if r.worker != nil {
		return callerOf(ctx).nearApart(name, arg)
	}
	return r.apart(ctx, name, arg)
}

func (r *Run) apart(ctx context.Context, name string, arg json.RawMessage) (json.RawMessage, error) {
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
