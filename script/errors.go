package script

import (
	"context"
	"errors"

	"github.com/vmcp-dev/vmcp/script/internal/backtrace"
	"github.com/vmcp-dev/vmcp/script/internal/ending"
	"github.com/vmcp-dev/vmcp/script/journal"
	"github.com/vmcp-dev/vmcp/script/source"
)

// Error is what went wrong in a script, and where.
type Error = source.Error

// Errors are all the problems that were found in a program before it ran.
type Errors = source.Errors

// Failure is an effect that was answered with "no".
type Failure = journal.Failure

// How runs end without a result, other than by an Error.
type (
	// Suspended says that the run cannot go on inside this request.
	Suspended = ending.Suspended
	// Question is what a run asks of somebody.
	Question = ending.Question
	// Doubt is an effect that was begun and has an outcome that nobody knows.
	Doubt = ending.Doubt
	// Cancelled says that the run was ended from outside.
	Cancelled = ending.Cancelled
	// Diverged says that a run does something else than its journal has.
	Diverged = ending.Diverged
	// Interrupted is how a run fails that would wait in doubt, with RunOptions.FailInDoubt.
	Interrupted = ending.Interrupted
	// Crash is a panic of the interpreter or of a builtin, contained in its run.
	Crash = ending.Crash
)

// NotDone marks an error of an effect that surely did not happen, so that a later run
// over the same journal may perform it.
func NotDone(err error) error { return ending.NotDone(err) }

// IsNotDone reports whether NotDone has marked err, or what it was made of.
func IsNotDone(err error) bool { return ending.IsNotDone(err) }

// MaxMessage is how long the text of a failure may be; Clip cuts what is longer.
const MaxMessage = ending.MaxMessage

// Clip cuts a message that somebody has filled with data.
func Clip(msg string) string { return ending.Clip(msg) }

// isBranch reports whether an error says that a branch of parallel has failed.
func isBranch(err error) bool { _, ok := err.(*branchError); return ok }

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
	frames, suffix := backtrace.Trace(err, isBranch)
	e := &Error{Msg: Clip(err.Error()), Err: err}
	var missing *ending.MissingKey
	if errors.As(err, &missing) {
		e.Msg += missing.Others()
	}
	for i := len(frames) - 1; i >= 0; i-- {
		if backtrace.InScript(frames[i]) {
			e.Pos = frames[i].Pos
			break
		}
	}
	if e.Pos.IsValid() {
		e.Backtrace = backtrace.Write(frames, suffix, e.Msg)
	}
	var limit *LimitError
	if errors.As(err, &limit) && !limit.Pos.IsValid() {
		limit.Pos = e.Pos
	}
	return e
}
