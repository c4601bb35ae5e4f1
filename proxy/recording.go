package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/cases"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/trace"
	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/journal"
)

// Calls of scripted tools are recorded here: a recorder goes with the context of the call, observer
// and CallTool fill it, and when the run is over a case is made of it, without secrets. A server
// writes it into a folder behind the call's back.

// recording is where calls are recorded, as a configuration says.
type recording struct {
	config config.Recording
	folder *cases.Folder // nil: nowhere
}

// recordingOf is the recording that a configuration wants; the present one where nothing changes.
func (p *Proxy) recordingOf(c config.Recording) (*recording, error) {
	if now := p.recording.Load(); now != nil && reflect.DeepEqual(now.config, c) {
		return now, nil
	}
	r := &recording{config: c}
	if c.Dir == "" {
		return r, nil
	}
	var err error
	if r.folder, err = cases.NewFolder(c.Dir, c.Keep, p.log); err != nil {
		return nil, fmt.Errorf("recording.dir: %w", err)
	}
	return r, nil
}

// useRecording replaces the recording; what was recorded up to now is still written.
func (p *Proxy) useRecording(r *recording) {
	if old := p.recording.Swap(r); old != nil && old != r {
		p.spawn(old.close)
	}
}

func (r *recording) close() {
	if r != nil && r.folder != nil {
		r.folder.Close()
	}
}

// wanted reports whether a call is to be recorded that may still end in any way.
func (r *recording) wanted() bool { return r != nil && r.folder != nil }

// record begins to record a call, or goes on with one that another request began.
func (h *host) record(ctx context.Context) context.Context {
	if h.p.options.Recorded == nil && !h.p.recording.Load().wanted() {
		return ctx
	}
	r := cases.NewRecorder(time.Now())
	return trace.Record(ctx, h.p.recorders.of(h.part.ID, r))
}

// recorders record runs, over all their parts in this process.
type recorders struct {
	mu  sync.Mutex
	all map[string]*cases.Recorder // by run; guarded by mu
}

// recordersMax bounds the runs that are recorded at one time.
const recordersMax = 1000

// of is what records a run; fresh if nothing does yet.
func (rs *recorders) of(run string, fresh *cases.Recorder) *cases.Recorder {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.all[run]; r != nil {
		return r
	}
	if rs.all == nil {
		rs.all = map[string]*cases.Recorder{}
	}
	for old, r := range rs.all {
		if len(rs.all) < recordersMax {
			break
		}
		r.Close()
		delete(rs.all, old)
	}
	rs.all[run] = fresh
	return fresh
}

func (rs *recorders) forget(run string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.all, run)
}

// recordEnd makes a case of a run that is over.
func (h *host) recordEnd(ctx context.Context, args json.RawMessage, res *script.Result, err error) {
	recorder := trace.Whole(ctx)
	if recorder == nil {
		return
	}
	if _, waits := errors.AsType[*script.Suspended](err); waits {
		return
	}
	h.p.recorders.forget(h.part.ID)
	rec := h.p.recording.Load()
	failed := res == nil || err != nil || res.IsError
	skip := ctx.Err() != nil || isBusy(err) || errors.Is(err, journal.ErrOtherRun) // it was not the script that ended it
	if skip || h.p.options.Recorded == nil && (!rec.wanted() || rec.config.Only == "failed" && !failed) {
		recorder.Close()
		return
	}
	args, end := slices.Clone(args), cases.Ended{Result: res, Err: err, Time: time.Now()}
	finish := func() (*cases.Case, error) {
		defer recorder.Close()
		c := recorder.Case(h.tool.Name, args, h.tool.Program, end)
		if c == nil {
			return nil, nil
		}
		return c, h.redact(c, rec)
	}
	if h.p.options.Recorded != nil {
		h.p.options.Recorded(finish())
		return
	}
	if !rec.folder.Put(cases.Pending{Tool: h.tool.Name, Make: finish}) {
		recorder.Close()
		h.p.log.Warn("a call was not recorded: too many are written at the moment", "tool", h.tool.Name)
	}
}

// redact replaces the secrets in a case.
func (h *host) redact(c *cases.Case, rec *recording) error {
	rules := cases.Rules{Text: h.p.secrets.Text, Schemas: h.schemas, Keep: h.p.options.RecordFull}
	if rec != nil {
		rules.Pointers = rec.config.Redact
	}
	return c.Redact(rules)
}

// schemas are those of a tool that the run can call, or of its own.
func (h *host) schemas(tool string) (input, output json.RawMessage) {
	e := h.catalog.Find(catalog.AnyTool(tool))
	if e == nil {
		return nil, nil
	}
	return jsonscan.Get(e.Definition, "inputSchema"), jsonscan.Get(e.Definition, "outputSchema")
}
