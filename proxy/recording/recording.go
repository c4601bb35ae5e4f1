// Package recording keeps runs of scripted tools as cases: a recorder goes with the context of a run, whoever performs
// its effects fills it, and when the run is over a case is made of it, without secrets. A server writes it into a
// folder behind the run's back.
package recording

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

	"github.com/vmcp-dev/vmcp/cases"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/secret"
	"github.com/vmcp-dev/vmcp/proxy/trace"
	"github.com/vmcp-dev/vmcp/script"
)

// Options say where cases go besides the folder of a configuration.
type Options struct {
	Log     *slog.Logger
	Secrets *secret.Redactor
	// Recorded gets every case, before the run is answered; nil: only what the configuration wants is recorded.
	Recorded func(*cases.Case, error)
	// Full leaves secrets in what is recorded, but for those of the configuration.
	Full bool
}

// Recorder records runs, over all their parts in this process.
type Recorder struct {
	o   Options
	now atomic.Pointer[Target]

	mu  sync.Mutex
	all map[string]*cases.Recorder // by run; guarded by mu
}

// New makes a recorder that has no folder yet.
func New(o Options) *Recorder { return &Recorder{o: o} }

// Target is where runs are recorded, as a configuration says.
type Target struct {
	config config.Recording
	folder *cases.Folder // nil: nowhere
}

// Open is the target that a configuration wants; the present one where nothing changes.
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

// Discard gives up a target that Open has made and nobody uses.
func (r *Recorder) Discard(t *Target) {
	if t != r.now.Load() {
		t.close()
	}
}

// Use records into t from now on. What was recorded up to now is still written, by the function that it returns.
func (r *Recorder) Use(t *Target) (finish func()) {
	if old := r.now.Swap(t); old != t {
		return old.close
	}
	return func() {}
}

// Close ends the recording, when everything is written.
func (r *Recorder) Close() { r.now.Load().close() }

func (t *Target) close() {
	if t.wanted() {
		t.folder.Close()
	}
}

// wanted reports whether a run is to be recorded that may still end in any way.
func (t *Target) wanted() bool { return t != nil && t.folder != nil }

// Begin begins to record a run, or goes on with one that another request began.
func (r *Recorder) Begin(ctx context.Context, run string) context.Context {
	if r.o.Recorded == nil && !r.now.Load().wanted() {
		return ctx
	}
	return trace.Record(ctx, r.of(run, cases.NewRecorder(time.Now())))
}

// most bounds the runs that are recorded at one time.
const most = 1000

// of is what records a run; fresh if nothing does yet.
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

// Run is one that has ended, or a part of it has.
type Run struct {
	ID, Tool string
	Program  *script.Program
	Args     json.RawMessage
	Result   *script.Result
	Err      error
	// Skip says that it was not the script that ended it: there is no case of it.
	Skip bool
	// Schemas are those of a tool that the run can call, or of its own.
	Schemas func(tool string) (input, output json.RawMessage)
}

// End makes a case of a run that is over. ctx is of Begin.
func (r *Recorder) End(ctx context.Context, run Run) {
	recorder := trace.Whole(ctx)
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
		r.o.Log.Warn("a call was not recorded: too many are written at the moment", "tool", run.Tool)
	}
}

// rules say what is replaced in a case.
func (r *Recorder) rules(t *Target, run Run) cases.Rules {
	rules := cases.Rules{Text: r.o.Secrets.Text, Schemas: run.Schemas, Keep: r.o.Full}
	if t != nil {
		rules.Pointers = t.config.Redact
	}
	return rules
}
