// Package ending is how runs end without a result, in the errors that say so, and the text of failures.
package ending

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/internal/clip"
)

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
	// Paused says that the run was asked to stop: it could go on at once.
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

// Join adds what o waits for.
func (s *Suspended) Join(o *Suspended) {
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
	return fmt.Sprintf("%s (at %s) was begun and no answer came: whether it happened is not known, so it is not repeated", What(d.Kind, d.Name), d.Key)
}

// What names an effect for a reader: call "deploy".
func What(kind, name string) string {
	if name == "" {
		return kind
	}
	return fmt.Sprintf("%s %q", kind, name)
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

// Interrupted is how a run fails that would wait in doubt, where runs may not wait in doubt.
type Interrupted struct{ Doubts []Doubt }

func (e *Interrupted) Error() string {
	why := make([]string, len(e.Doubts))
	for i, d := range e.Doubts {
		why[i] = d.String()
	}
	return strings.Join(why, "; ")
}

// Question is what a run asks of somebody.
type Question struct {
	// Key is the question's position in the run: the same question has the same key when the run is resumed.
	Key string
	// Method and Params are the request, such as elicitation/create.
	Method string
	Params json.RawMessage
	// Deadline is until when an answer counts: written with the question when it is first asked, it does
	// not move when it is asked again. Zero where it is not known.
	Deadline time.Time
}

// Crash is a panic of the interpreter or of a builtin, contained in its run.
type Crash struct {
	Value any
	Stack []byte // for the log, not for the client
}

func (c *Crash) Error() string { return "internal error: " + c.Text() }

// Text is what the panic said.
func (c *Crash) Text() string { return fmt.Sprint(c.Value) }

// NotDone marks an error of an effect that surely did not happen, so that a later run
// over the same journal may perform it.
func NotDone(err error) error { return &notDone{err} }

// IsNotDone reports whether NotDone has marked err, or what it was made of.
func IsNotDone(err error) bool { return errors.As(err, new(*notDone)) }

type notDone struct{ error }

func (n *notDone) Unwrap() error { return n.error }

// Stopped is an error that had to stop the interpreter from inside: the steps that
// ended, an iterator that failed.
type Stopped struct {
	Eval  *starlark.EvalError
	Cause error
}

func (s *Stopped) Error() string { return s.Cause.Error() }

// Unwrap returns why.
func (s *Stopped) Unwrap() error { return s.Cause }

// MaxMessage is how long the text of a failure may be; Clip cuts what is longer.
const MaxMessage = 16 << 10

// Clip cuts a message that somebody has filled with data.
func Clip(msg string) string {
	if len(msg) <= MaxMessage+64 { // so that what was cut is not cut again
		return msg
	}
	return clip.Counted(msg, MaxMessage)
}
