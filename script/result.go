package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// Returned is the value of result(): what a script returns when a plain value is not enough.
type Returned struct {
	// Content is a list of MCP content blocks; nil for none.
	Content starlark.Value
	// Structured is the structured content; nil for none.
	Structured starlark.Value
	IsError    bool
}

func (*Returned) String() string        { return "result(...)" }
func (*Returned) Type() string          { return "result" }
func (*Returned) Freeze()               {}
func (*Returned) Truth() starlark.Bool  { return starlark.True }
func (*Returned) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: result") }

// result makes the Result from the value that the entry function returned.
func (r *Run) result(v starlark.Value) (*Result, error) {
	out := &Result{}
	ret, ok := v.(*Returned)
	if !ok {
		ret = &Returned{Structured: v}
	}
	var err error
	if ret.Structured != nil {
		if out.Structured, err = r.encode("the returned value", ret.Structured); err != nil {
			return nil, err
		}
	}
	if ret.Content != nil {
		if out.Content, err = r.encode("the returned content", ret.Content); err != nil {
			return nil, err
		}
	}
	out.IsError = ret.IsError
	return out, nil
}

func (r *Run) encode(what string, v starlark.Value) (json.RawMessage, error) {
	data, err := meter.EncodeResult(r.budget, v, int64(r.limits.Output), r.limits.Depth)
	var long *meter.TooLongError
	if errors.As(err, &long) {
		err = reached("output", r.limits.Output)
	}
	if err != nil {
		return nil, &Error{Msg: fmt.Sprintf("%s: %v", what, err), Pos: r.program.Entry(), Err: err}
	}
	return data, nil
}

// used returns what the run and the runs that it called have used so far.
func (r *Run) used() Usage {
	unspent := r.budget.Unspent()
	return r.ledger.Total(Usage{Steps: unspent.Steps, Memory: unspent.Memory})
}

// Stats returns what the run has used so far.
func (r *Run) Stats() Stats {
	s := r.stats
	used := r.used()
	s.Steps, s.Memory = uint64(max(used.Steps, 0)), used.Memory
	s.Calls, s.Branches = int(used.Calls), int(used.Branches)
	s.Duration = time.Since(r.started)
	return s
}
