package runs

import (
	"context"
	"errors"

	"github.com/vmcp-dev/vmcp/proxy/catalog"

	"github.com/vmcp-dev/vmcp/proxy/observe"

	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script"
)

// effect counts an effect of a run. One that the journal answered was counted before.
func (h *Host) effect(e script.Event) {
	if e.Replayed {
		return
	}
	h.Metrics.Effect(h.tool.Name, e.Kind, h.label(e), observe.Of(e.Err), e.Duration)
}

// observer returns the function that is called with every effect of a run.
func (h *Host) observer(ctx context.Context) func(script.Event) {
	shown, whole, past := status.Recorder(ctx, h.Secrets), status.Whole(ctx), steps(ctx)
	return func(e script.Event) {
		h.effect(e)
		if past != nil {
			past(e)
		}
		if whole != nil {
			whole.Add(e)
		}
		if shown != nil {
			shown(h.forClient(e))
		}
	}
}

// forClient is an effect as the client may see it. The error of a failed call could reveal what is behind the tool, and
// is left out.
func (h *Host) forClient(e script.Event) script.Event {
	if h.x.SeesHidden() || e.Kind != "call" {
		return e
	}
	if t := h.catalog.Find(catalog.AnyTool(e.Name)); t == nil || t.Hidden {
		e.Name = "(hidden)"
	}
	if e.Err != nil {
		e.Err = errHiddenFailure
	}
	return e
}

var errHiddenFailure = errors.New("failed")

// label is the label for a tool in metrics: only names of existing tools.
func (h *Host) label(e script.Event) string {
	if e.Kind != "call" {
		return ""
	}
	if h.catalog.Find(catalog.AnyTool(e.Name)) == nil {
		return observe.Unknown
	}
	return e.Name
}

// done counts a run that a script called, and what every part of a run has used.
func (h *Host) done(stats script.Stats, o observe.Outcome, err error) {
	m, name := h.Metrics, h.tool.Name
	m.Steps(name, stats.Steps)
	switch {
	case o == observe.Suspended:
		m.Suspended(name)
	case h.top() && h.part.Kept():
		m.Took(name, stats.Duration, stats.Memory, err) // the run is counted when it has ended
	default:
		if h.top() {
			h.part.Counted()
		}
		m.Over(name, o)
		m.Took(name, stats.Duration, stats.Memory, err)
	}
}
