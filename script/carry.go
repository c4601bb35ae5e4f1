package script

import (
	"encoding/json"
	"errors"

	"go.starlark.net/syntax"
)

// An ErrorCodec carries errors between a run and its worker that this package does not
// know, such as those of hosts. Of all others the text gets across.
type ErrorCodec interface {
	// EncodeError returns a form of the first error in the tree of err that it knows; the
	// kind is "" when there is none.
	EncodeError(err error) (kind string, data []byte)
	// DecodeError makes the error again; nil for what it does not know.
	DecodeError(kind string, data []byte) error
}

// carried is an error on its way between a run and its worker: its text, and what Final
// and its callers look for in it. Texts are bytes, for they may be no UTF-8.
type carried struct {
	Text        []byte          `json:"text,omitempty"`
	Own         bool            `json:"own,omitempty"` // the one that the receiver has sent
	Limit       *carriedLimit   `json:"limit,omitempty"`
	Failure     *carriedFailure `json:"failure,omitempty"`
	Suspended   bool            `json:"suspended,omitempty"`
	Cancelled   *carried        `json:"cancelled,omitempty"` // its cause
	Diverged    *Diverged       `json:"diverged,omitempty"`
	Interrupted *Interrupted    `json:"interrupted,omitempty"`
	Busy        *Busy           `json:"busy,omitempty"`
	Crash       *carriedCrash   `json:"crash,omitempty"`
	NotDone     bool            `json:"notDone,omitempty"`
	Described   *carriedError   `json:"described,omitempty"`
	Kind        string          `json:"kind,omitempty"` // of an ErrorCodec
	Data        []byte          `json:"data,omitempty"`
}

type carriedLimit struct {
	Limit string     `json:"limit"`
	Value string     `json:"value"`
	Pos   carriedPos `json:"pos"`
}

type carriedFailure struct {
	Kind    []byte `json:"kind"`
	Message []byte `json:"message"`
}

type carriedCrash struct {
	Value []byte `json:"value"`
	Stack []byte `json:"stack"`
}

type carriedError struct {
	Msg       []byte     `json:"msg"`
	Pos       carriedPos `json:"pos"`
	Backtrace []byte     `json:"backtrace"`
	Cause     *carried   `json:"cause,omitempty"`
}

type carriedPos struct {
	File string `json:"file,omitempty"`
	Line int32  `json:"line,omitempty"`
	Col  int32  `json:"col,omitempty"`
}

func carryPos(p syntax.Position) carriedPos {
	if !p.IsValid() {
		return carriedPos{}
	}
	return carriedPos{p.Filename(), p.Line, p.Col}
}

func (p carriedPos) position() syntax.Position {
	if p == (carriedPos{}) {
		return syntax.Position{}
	}
	return syntax.MakePosition(&p.File, p.Line, p.Col)
}

// carriedDepth bounds errors in errors, and mostStack the stack of a crash.
const (
	carriedDepth = 4
	mostStack    = 16 << 10
)

// carry makes the form of err that crosses; nil for nil.
func carry(err error, codec ErrorCodec) []byte {
	if err == nil {
		return nil
	}
	data, fault := json.Marshal(carryError(err, codec, carriedDepth))
	if fault != nil {
		panic(fault) // texts and numbers
	}
	return data
}

func carryError(err error, codec ErrorCodec, depth int) *carried {
	c := &carried{}
	if depth == 0 {
		c.Text = []byte(Clip(err.Error()))
		return c
	}
	var described *Error
	if errors.As(err, &described) {
		c.Described = &carriedError{Msg: []byte(described.Msg), Pos: carryPos(described.Pos), Backtrace: []byte(described.Backtrace)}
		if described.Err != nil {
			c.Described.Cause = carryError(described.Err, codec, depth-1)
		}
		return c
	}
	c.Text = []byte(Clip(err.Error()))
	c.carryFinal(err, codec, depth)
	var failure *Failure
	if errors.As(err, &failure) {
		c.Failure = &carriedFailure{[]byte(failure.Kind), []byte(Clip(failure.Message))}
	}
	var fresh *notDone
	c.NotDone = errors.As(err, &fresh)
	if codec != nil {
		c.Kind, c.Data = codec.EncodeError(err)
	}
	return c
}

// carryFinal notes what Final looks for.
func (c *carried) carryFinal(err error, codec ErrorCodec, depth int) {
	var (
		limit     *LimitError
		cancelled *Cancelled
		crash     *Crash
	)
	if errors.As(err, &limit) {
		c.Limit = &carriedLimit{limit.Limit, limit.Value, carryPos(limit.Pos)}
	}
	if errors.As(err, &cancelled) {
		c.Cancelled = carryError(cancelled.Cause, codec, depth-1)
	}
	if errors.As(err, &crash) {
		c.Crash = &carriedCrash{[]byte(Clip(crash.text())), crash.Stack[:min(len(crash.Stack), mostStack)]}
	}
	c.Suspended = isSuspended(err)
	errors.As(err, &c.Diverged)
	errors.As(err, &c.Interrupted)
	errors.As(err, &c.Busy)
}

// farError is an error of the other side: its text, and what it is.
type farError struct {
	text   string
	causes []error
}

func (e *farError) Error() string   { return e.text }
func (e *farError) Unwrap() []error { return e.causes }

// carrier makes errors of what came across.
type carrier struct {
	codec ErrorCodec
	// suspended stands for a suspension: only one side knows its questions.
	suspended func() error
	// cause is why the context of the branch ended, if it did.
	cause error
}

// read makes the error of data; own is set for the one that the receiver has sent itself.
func (r carrier) read(data []byte) (err error, own bool) {
	if data == nil {
		return nil, false
	}
	var c carried
	if fault := json.Unmarshal(data, &c); fault != nil {
		return &WorkerError{Why: "it sent an error that cannot be read"}, false
	}
	if c.Own {
		return nil, true
	}
	return r.error(&c), false
}

func (r carrier) error(c *carried) error {
	if d := c.Described; d != nil {
		e := &Error{Msg: string(d.Msg), Pos: d.Pos.position(), Backtrace: string(d.Backtrace)}
		if d.Cause != nil {
			e.Err = r.error(d.Cause)
		}
		return e
	}
	causes := r.causes(c)
	text := string(c.Text)
	for _, cause := range causes {
		if bad, ok := cause.(*WorkerError); ok {
			return bad
		}
	}
	var err error = &farError{text, causes}
	if len(causes) == 1 && causes[0].Error() == text {
		err = causes[0]
	}
	if c.NotDone {
		err = NotDone(err)
	}
	return err
}

// causes are what c is besides its text.
func (r carrier) causes(c *carried) (causes []error) {
	if l := c.Limit; l != nil {
		causes = append(causes, &LimitError{Limit: l.Limit, Value: l.Value, Pos: l.Pos.position()})
	}
	if f := c.Failure; f != nil {
		causes = append(causes, &Failure{Kind: string(f.Kind), Message: string(f.Message)})
	}
	if c.Suspended {
		causes = append(causes, r.suspended())
	}
	if c.Cancelled != nil {
		cause := r.cause
		if cause == nil || cause.Error() != string(c.Cancelled.Text) {
			cause = r.error(c.Cancelled)
		}
		causes = append(causes, &Cancelled{Cause: cause})
	}
	if c.Diverged != nil {
		causes = append(causes, c.Diverged)
	}
	if c.Interrupted != nil {
		causes = append(causes, c.Interrupted)
	}
	if c.Busy != nil {
		causes = append(causes, c.Busy)
	}
	if k := c.Crash; k != nil {
		causes = append(causes, &Crash{Value: string(k.Value), Stack: k.Stack})
	}
	if c.Kind != "" && r.codec != nil {
		if known := r.codec.DecodeError(c.Kind, c.Data); known != nil {
			causes = append(causes, known)
		}
	}
	return causes
}

// A WorkerError says that the process that computed an isolated run did not bring it to its
// end.
type WorkerError struct{ Why string }

func (e *WorkerError) Error() string { return "the worker process of this run failed: " + e.Why }
