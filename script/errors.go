package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/internal/clip"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/journal"
	"github.com/vmcp-dev/vmcp/script/source"
)

// Error is what went wrong in a script, and where.
type Error = source.Error

// Errors are all the problems that were found in a program before it ran.
type Errors = source.Errors

// Failure is an effect that was answered with "no".
type Failure = journal.Failure

// Suspended says that the run cannot go on inside this request: it needs what only a later one
// can bring, or what takes its time. The same program run again over the same journal
// goes on where it stopped. A script cannot catch it, and it writes nothing into the journal: the other
// branches of a parallel() go on until each has ended or is suspended itself.
type Suspended struct {
	// Questions are what has to be answered, all of them that were open at the time.
	Questions []Question
	// Doubts are the calls whose outcome somebody has to find out.
	Doubts []Doubt
	// Wake is when the run can go on by itself: the end of the first sleep, or of the time for the first
	// question. Zero: never.
	Wake time.Time
	// Paused says that RunOptions.Pause stopped the run: it could go on at once.
	Paused bool
}

func (s *Suspended) Error() string {
	var why []string
	for _, d := range s.Doubts {
		why = append(why, d.String())
	}
	switch n := len(s.Questions); {
	case n == 1:
		why = append(why, "waits for an answer")
	case n > 1:
		why = append(why, fmt.Sprintf("waits for %d answers", n))
	case len(why) > 0:
	case s.Paused:
		why = append(why, "paused")
	case !s.Wake.IsZero():
		why = append(why, "sleeps until "+s.Wake.Format(time.RFC3339))
	}
	return "suspended: " + strings.Join(why, "; ")
}

// join adds what o waits for.
func (s *Suspended) join(o *Suspended) {
	s.Questions = append(s.Questions, o.Questions...)
	s.Doubts = append(s.Doubts, o.Doubts...)
	s.Paused = s.Paused || o.Paused
	if s.Wake.IsZero() || !o.Wake.IsZero() && o.Wake.Before(s.Wake) {
		s.Wake = o.Wake
	}
}

// Doubt is an effect that was begun, may not be repeated, and has an outcome that nobody knows: the
// process or the connection was lost before the answer came. Somebody has to find out whether it
// happened, and resolve it (see Journal).
type Doubt struct {
	Key, Kind, Name string
	Args            json.RawMessage
	Began           time.Time
}

func (d Doubt) String() string {
	return fmt.Sprintf("%s (at %s) was begun and no answer came: whether it happened is not known, so it is not repeated", Effect{Kind: d.Kind, Name: d.Name}, d.Key)
}

// Cancelled says that the run was ended from outside.
type Cancelled struct{ Cause error }

func (c *Cancelled) Error() string { return "cancelled: " + c.Cause.Error() }

// Unwrap returns why.
func (c *Cancelled) Unwrap() error { return c.Cause }

// Diverged says that a run over a journal did something else than the run that wrote
// the journal, so that its answers do not fit.
type Diverged struct{ Key, Have, Want string }

func (d *Diverged) Error() string {
	return fmt.Sprintf("diverged from its journal at %s: does %s, the journal has %s", d.Key, d.Have, d.Want)
}

// Interrupted is how a run fails that would wait in doubt, with RunOptions.FailInDoubt.
type Interrupted struct{ Doubts []Doubt }

func (e *Interrupted) Error() string {
	why := make([]string, len(e.Doubts))
	for i, d := range e.Doubts {
		why[i] = d.String()
	}
	return strings.Join(why, "; ")
}

// errSibling ends the branches of a parallel() of which one has failed.
var errSibling = errors.New("another branch of parallel failed")

// Final reports whether err ends the run whatever the script says: a limit of its
// own, cancellation, suspension, a journal that does not fit. Builtins that catch
// errors pass these on.
func Final(err error) bool {
	var (
		limit       *LimitError
		suspended   *Suspended
		cancelled   *Cancelled
		diverged    *Diverged
		interrupted *Interrupted
		crash       *Crash
		busy        *Busy
		worker      *WorkerError
		journal     *JournalError
	)
	return errors.As(err, &worker) || errors.As(err, &journal) || errors.As(err, &busy) || errors.As(err, &limit) || errors.As(err, &suspended) || errors.As(err, &cancelled) ||
		errors.As(err, &diverged) || errors.As(err, &interrupted) || errors.As(err, &crash)
}

// Crash is a panic of the interpreter or of a builtin, contained in its run.
type Crash struct {
	Value any
	Stack []byte // for the log, not for the client
}

func (c *Crash) Error() string { return "internal error: " + c.text() }

func (c *Crash) text() string { return fmt.Sprint(c.Value) }

// ended translates the reason why a context ended.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	var limit *LimitError
	var busy *Busy
	var worker *WorkerError
	switch {
	case errors.As(cause, &worker):
		return worker
	case errors.As(cause, &limit):
		own := *limit // several runs may end by it, each at its own place
		return &own
	case errors.As(cause, &busy):
		return busy
	}
	return &Cancelled{Cause: cause}
}

// runError describes an error that ended a run.
func runError(err error) *Error {
	var done *Error
	if errors.As(err, &done) {
		return done
	}
	frames, suffix := trace(err)
	e := &Error{Msg: Clip(err.Error()), Err: err}
	var missing *meter.MissingKey
	if errors.As(err, &missing) {
		e.Msg += missing.Others()
	}
	for i := len(frames) - 1; i >= 0; i-- {
		if inScript(frames[i]) {
			e.Pos = frames[i].Pos
			break
		}
	}
	if e.Pos.IsValid() {
		e.Backtrace = writeTrace(frames, suffix, e.Msg)
	}
	var limit *LimitError
	if errors.As(err, &limit) && !limit.Pos.IsValid() {
		limit.Pos = e.Pos
	}
	return e
}

// MaxMessage is how long the text of a failure may be; Clip cuts what is longer.
const MaxMessage = 16 << 10

// Clip cuts a message that somebody has filled with data.
func Clip(msg string) string {
	if len(msg) <= MaxMessage+64 { // so that what was cut is not cut again
		return msg
	}
	return clip.Counted(msg, MaxMessage)
}

// trace collects the frames of err, and those of the branches inside of it. Where a builtin has
// passed on an error of a function that it called, both have the frames around it: once is enough.
func trace(err error) (frames []starlark.CallFrame, suffix string) {
	thread := 0 // where the frames of the present branch begin
	for ; err != nil; err = errors.Unwrap(err) {
		if _, ok := err.(*branchError); ok {
			thread = len(frames)
		}
		eval := evalError(err)
		if eval == nil {
			continue
		}
		if around := frames[thread:]; len(around) <= len(eval.CallStack) && slices.EqualFunc(around, eval.CallStack[:len(around)], sameFrame) {
			frames = frames[:thread]
		}
		frames = append(frames, eval.CallStack...)
		suffix = ""
		if n := len(frames); n > 0 && !inScript(frames[n-1]) && !hidden(frames[n-1]) {
			suffix = " in " + frames[n-1].Name
		}
	}
	return frames, suffix
}

func sameFrame(a, b starlark.CallFrame) bool {
	return a.Name == b.Name && a.Pos.String() == b.Pos.String()
}

// evalError returns err as the interpreter made it, if it did.
func evalError(err error) *starlark.EvalError {
	switch err := err.(type) {
	case *starlark.EvalError:
		return err
	case *stopped:
		return err.eval
	}
	return nil
}

func writeTrace(frames []starlark.CallFrame, suffix, msg string) string {
	var b strings.Builder
	b.WriteString("Traceback (most recent call last):\n")
	for _, f := range frames {
		if inScript(f) {
			fmt.Fprintf(&b, "  %s: in %s\n", f.Pos, f.Name)
		}
	}
	fmt.Fprintf(&b, "Error%s: %s", suffix, msg)
	return b.String()
}

// inScript reports whether f is a frame of a script, not of a builtin.
func inScript(f starlark.CallFrame) bool { return f.Pos.Line > 0 }

// hidden reports whether f is a frame of an operation that the script did not write.
func hidden(f starlark.CallFrame) bool { return strings.HasPrefix(f.Name, "$") }
