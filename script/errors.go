package script

import (
	"context"
	"errors"
	"strings"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// How runs end without a result, other than by an Error.
type (
	// Suspended says that the run cannot continue inside this request.
	Suspended = meter.Suspended
	// Question is a request of a run to a person or a client.
	Question = meter.Question
	// Doubt is an effect that was begun and whose outcome is unknown.
	Doubt = meter.Doubt
	// Cancelled says that the run was ended from outside.
	Cancelled = meter.Cancelled
	// Diverged says that a run performs another effect than its journal has.
	Diverged = meter.Diverged
	// Interrupted is the error of a run that would wait in doubt, with RunOptions.FailInDoubt.
	Interrupted = meter.Interrupted
	// Crash is a panic of the interpreter or of a builtin, contained in its run.
	Crash = meter.Crash
)

// NotDone marks the error of an effect that was certainly not performed, so that a later run over the same journal may
// perform it.
func NotDone(err error) error { return meter.NotDone(err) }

// IsNotDone reports whether err, or an error that it wraps, was marked by NotDone.
func IsNotDone(err error) bool { return meter.IsNotDone(err) }

// MaxMessage bounds the text of a failure, in bytes; Clip cuts longer ones.
const MaxMessage = meter.MaxMessage

// Clip cuts a message to MaxMessage, with a mark.
func Clip(msg string) string { return meter.Clip(msg) }

// isBranch reports whether err is that of a branch of parallel().
func isBranch(err error) bool { _, ok := err.(*branchError); return ok }

// errSibling is the cause that cancels the branches of a parallel() after one has failed.
var errSibling = errors.New("another branch of parallel() failed")

// Final reports whether err ends the run without the script being able to catch it: a limit of the run, cancellation,
// suspension, a journal that does not fit. Builtins that catch errors return these unchanged.
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

// ended returns the error for the cause of a context that has ended.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	var limit *LimitError
	var busy *Busy
	var worker *WorkerError
	switch {
	case errors.As(cause, &worker):
		return worker
	case errors.As(cause, &limit):
		own := *limit // several runs may end by it, each at another position
		return &own
	case errors.As(cause, &busy):
		return busy
	}
	return &Cancelled{Cause: cause}
}

// interrupted is the error of a run that would wait in doubt where that is not allowed: at the call, with its backtrace.
func interrupted(err error, doubts []Doubt) *Error {
	i := &Interrupted{Doubts: doubts}
	at, text := runError(err), i.Error()
	if at.Pos.IsValid() {
		text = strings.TrimPrefix(text, at.Pos.String()+": ")
	}
	return &Error{Msg: Clip(text), Pos: at.Pos, Backtrace: strings.Replace(at.Backtrace, at.Msg, Clip(text), 1), Err: i}
}

// runError makes the error of a run, with position and backtrace, from err.
func runError(err error) *Error {
	var done *Error
	if errors.As(err, &done) {
		return done
	}
	frames, suffix := trace(err, isBranch)
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
		e.Backtrace = write(frames, suffix, e.Msg)
	}
	var limit *LimitError
	if errors.As(err, &limit) && !limit.Pos.IsValid() {
		limit.Pos = e.Pos
	}
	return e
}
