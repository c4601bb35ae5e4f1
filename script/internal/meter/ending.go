package meter

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/internal/display"
)

// This part of the package has the errors with which runs end without a result, and bounds the text of failures.

// Suspended says that the run cannot continue inside this request: it needs an answer that only a later request can
// bring, or waits longer than a request may. The same program run again over the same journal resumes it. A script
// cannot catch it, and it is not recorded; the other branches of a parallel() continue until each has ended or is
// suspended itself.
type Suspended struct {
	// Questions are all questions that were open at the time.
	Questions []Question
	// Doubts are the calls whose outcome is unknown and has to be resolved by a person.
	Doubts []Doubt
	// Wake is when the run can continue without an answer: the end of the first sleep, or the first deadline of a
	// question. Zero: never.
	Wake time.Time
	// Paused says that the run was asked to stop: it could be resumed at once.
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

// Join adds what o waits for to s.
func (s *Suspended) Join(o *Suspended) {
	s.Questions = append(s.Questions, o.Questions...)
	s.Doubts = append(s.Doubts, o.Doubts...)
	s.Paused = s.Paused || o.Paused
	if s.Wake.IsZero() || !o.Wake.IsZero() && o.Wake.Before(s.Wake) {
		s.Wake = o.Wake
	}
}

// Doubt is an effect that was begun, may not be repeated, and whose outcome is unknown: the process or the connection
// was lost before the answer was received. A person has to find out whether it happened, and resolve it (see Journal).
type Doubt struct {
	Key, Kind, Name string
	Args            json.RawMessage
	Began           time.Time
	// Why is what lost the answer, and Pos where in the script the effect was called; "" if that is not known any more.
	Why, Pos string
}

func (d Doubt) String() string {
	s := What(d.Kind, d.Name)
	if d.Pos != "" {
		s = d.Pos + ": " + s
	}
	why := d.Why
	if why == "" {
		why = "no answer was received"
	}
	return fmt.Sprintf("%s (effect %s): %s: whether it happened is not known, so it is not repeated", s, d.Key, why)
}

// What names an effect for a reader, as in: call "deploy".
func What(kind, name string) string {
	if name == "" {
		return kind
	}
	return fmt.Sprintf("%s %q", kind, name)
}

// Cancelled says that the run was ended from outside.
type Cancelled struct{ Cause error }

func (c *Cancelled) Error() string { return "cancelled: " + c.Cause.Error() }

// Unwrap returns the cause.
func (c *Cancelled) Unwrap() error { return c.Cause }

// Diverged says that a run performed another effect than the run that wrote its journal, so that the answers do not
// fit.
type Diverged struct{ Key, Have, Want string }

func (d *Diverged) Error() string {
	return fmt.Sprintf("diverged from its journal at %s: does %s, the journal has %s", d.Key, d.Have, d.Want)
}

// Interrupted is the error of a run that would be suspended in doubt where that is not allowed.
type Interrupted struct{ Doubts []Doubt }

func (e *Interrupted) Error() string {
	why := make([]string, len(e.Doubts))
	for i, d := range e.Doubts {
		why[i] = d.String()
	}
	return strings.Join(why, "; ")
}

// Question is a request of a run to a person or a client.
type Question struct {
	// Key is the question's position in the run; it is the same in a resumed run.
	Key string
	// Method and Params are the request, such as elicitation/create.
	Method string
	Params json.RawMessage
	// Deadline is until when an answer is accepted. It is recorded when the question is first asked, and does not move
	// when it is asked again. Zero if unknown.
	Deadline time.Time
}

// Crash is a panic of the interpreter or of a builtin, contained in its run.
type Crash struct {
	Value any
	Stack []byte // for the log, not for the client
}

func (c *Crash) Error() string { return "internal error: " + c.Text() }

// Text returns the value of the panic as text.
func (c *Crash) Text() string { return fmt.Sprint(c.Value) }

// NotDone marks the error of an effect that was certainly not performed, so that a later run over the same journal may
// perform it.
func NotDone(err error) error { return &notDone{err} }

// IsNotDone reports whether err, or an error that it wraps, was marked by NotDone.
func IsNotDone(err error) bool { return errors.As(err, new(*notDone)) }

type notDone struct{ error }

func (n *notDone) Unwrap() error { return n.error }

// Stopped is an error that stopped the interpreter between two operations: steps that ran out, an iterator that
// failed.
type Stopped struct {
	Eval  *starlark.EvalError
	Cause error
}

func (s *Stopped) Error() string { return s.Cause.Error() }

// Unwrap returns the cause.
func (s *Stopped) Unwrap() error { return s.Cause }

// MaxMessage bounds the text of a failure, in bytes; Clip cuts longer ones.
const MaxMessage = 16 << 10

// Clip cuts a message to MaxMessage, with a mark.
func Clip(msg string) string {
	if len(msg) <= MaxMessage+64 { // so that what was cut is not cut again
		return msg
	}
	return display.Counted(msg, MaxMessage)
}
