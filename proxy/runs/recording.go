package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/builtins/cases"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/proxy/status"
	"github.com/vmcp-dev/vmcp/script"
)

// This part of the package records runs of scripted tools as cases. A cases.Recorder is in the context of a run, host.go
// adds the run's effects to it, and at the end of the run a case is made of it, without secrets. The case is written to
// a folder after the run has been answered.

// RecordingOptions say where cases go in addition to the folder of a configuration.
type RecordingOptions struct {
	Log     *slog.Logger
	Secrets *secret.Redactor
	// Recorded is called with every case, before the run is answered; nil: only what the configuration says is
	// recorded.
	Recorded func(*cases.Case, error)
	// Full keeps secrets in recordings, except those of the configuration.
	Full bool
}

// Recorder records runs, each over all its parts in this process.
type Recorder struct {
	o   RecordingOptions
	now atomic.Pointer[Target]

	mu  sync.Mutex
	all map[string]*cases.Recorder // by run; guarded by mu
}

// NewRecording makes a Recorder without a folder; Use sets one.
func NewRecording(o RecordingOptions) *Recorder { return &Recorder{o: o} }

// Target is the recording folder of a configuration.
type Target struct {
	config config.Recording
	folder *cases.Folder // nil: none
}

// Open opens the target of a configuration, or returns the current one if nothing has changed.
func (r *Recorder) Open(c config.Recording) (*Target, error) {
	if now := r.now.Load(); now != nil && reflect.DeepEqual(now.config, c) {
		return now, nil
	}
	t := &Target{config: c}
	if c.Dir == "" {
		return t, nil
	}
	var err error
	if t.folder, err = cases.NewFolder(c.Dir, c.Keep, r.o.Log); err != nil {
		return nil, fmt.Errorf("recording.dir: %w", err)
	}
	return t, nil
}

// Discard closes a target of a configuration that was not applied.
func (r *Recorder) Discard(t *Target) {
	if t != r.now.Load() {
		t.close()
	}
}

// Use makes t the current target. finish writes what was recorded for the previous one, and closes it.
func (r *Recorder) Use(t *Target) (finish func()) {
	if old := r.now.Swap(t); old != t {
		return old.close
	}
	return func() {}
}

// Close writes what is queued, and closes the target.
func (r *Recorder) Close() { r.now.Load().close() }

func (t *Target) close() {
	if t.wanted() {
		t.folder.Close()
	}
}

// wanted reports whether runs are recorded regardless of how they end.
func (t *Target) wanted() bool { return t != nil && t.folder != nil }

// Begin begins to record a run, or continues to, if another request began it.
func (r *Recorder) Begin(ctx context.Context, run string) context.Context {
	if r.o.Recorded == nil && !r.now.Load().wanted() {
		return ctx
	}
	return status.Record(ctx, r.of(run, cases.NewRecorder(time.Now())))
}

// most bounds the runs that are recorded at one time.
const most = 1000

// of is the recorder of a run; fresh if there is none yet.
func (r *Recorder) of(run string, fresh *cases.Recorder) *cases.Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.all[run]; known != nil {
		return known
	}
	if r.all == nil {
		r.all = map[string]*cases.Recorder{}
	}
	for old, c := range r.all {
		if len(r.all) < most {
			break
		}
		c.Close()
		delete(r.all, old)
	}
	r.all[run] = fresh
	return fresh
}

func (r *Recorder) forget(run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, run)
}

// RecordingRun is a run, or a part of one, that has ended.
type RecordingRun struct {
	ID, Tool string
	Program  *script.Program
	Args     json.RawMessage
	Result   *script.Result
	Err      error
	// Skip means that something other than the script ended it: it becomes no case.
	Skip bool
	// Schemas returns the schemas of a tool that the run can call, or of the run's own tool.
	Schemas func(tool string) (input, output json.RawMessage)
}

// End makes a case of a run that has ended. ctx is that of Begin.
func (r *Recorder) End(ctx context.Context, run RecordingRun) {
	recorder := status.Whole(ctx)
	if recorder == nil {
		return
	}
	if _, waits := errors.AsType[*script.Suspended](run.Err); waits {
		return
	}
	r.forget(run.ID)
	t := r.now.Load()
	failed := run.Result == nil || run.Err != nil || run.Result.IsError
	if run.Skip || r.o.Recorded == nil && (!t.wanted() || t.config.Only == "failed" && !failed) {
		recorder.Close()
		return
	}
	run.Args = slices.Clone(run.Args)
	end := cases.Ended{Result: run.Result, Err: run.Err, Time: time.Now()}
	finish := func() (*cases.Case, error) {
		defer recorder.Close()
		c := recorder.Case(run.Tool, run.Args, run.Program, end)
		if c == nil {
			return nil, nil
		}
		return c, c.Redact(r.rules(t, run))
	}
	if r.o.Recorded != nil {
		r.o.Recorded(finish())
		return
	}
	if !t.folder.Put(cases.Pending{Tool: run.Tool, Make: finish}) {
		recorder.Close()
		r.o.Log.Warn("a call was not recorded: too many recordings are being written", "tool", run.Tool)
	}
}

// rules say what is replaced in a case.
func (r *Recorder) rules(t *Target, run RecordingRun) cases.Rules {
	rules := cases.Rules{Text: r.o.Secrets.Text, Schemas: run.Schemas, Keep: r.o.Full}
	if t != nil {
		rules.Pointers = t.config.Redact
	}
	return rules
}
