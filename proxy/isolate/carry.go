package isolate

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.starlark.net/syntax"

	"github.com/vmcp-dev/vmcp/script"
)

// carried is the encoding of an error between a run and its worker: its text, and what script.Final and its callers
// look for in it. Texts are bytes because they may be invalid UTF-8.
type carried struct {
	Text        []byte              `json:"text,omitempty"`
	Limit       *carriedLimit       `json:"limit,omitempty"`
	Failure     *carriedFailure     `json:"failure,omitempty"`
	Suspended   bool                `json:"suspended,omitempty"`
	Cancelled   *carried            `json:"cancelled,omitempty"` // its cause
	Diverged    *script.Diverged    `json:"diverged,omitempty"`
	Interrupted *script.Interrupted `json:"interrupted,omitempty"`
	Busy        *script.Busy        `json:"busy,omitempty"`
	Crash       *carriedCrash       `json:"crash,omitempty"`
	Journal     *carried            `json:"journal,omitempty"` // its cause
	NotDone     bool                `json:"notDone,omitempty"`
	Unknown     bool                `json:"unknown,omitempty"`
	Harmless    *carriedFailure     `json:"harmless,omitempty"` // of an unknown outcome
	Described   *carriedError       `json:"described,omitempty"`
	Kind        string              `json:"kind,omitempty"` // of an error of a host
	Data        []byte              `json:"data,omitempty"`
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

func carryFailure(f *script.Failure) *carriedFailure {
	return &carriedFailure{[]byte(f.Kind), []byte(script.Clip(f.Message))}
}

func (f *carriedFailure) failure() *script.Failure {
	return &script.Failure{Kind: string(f.Kind), Message: string(f.Message)}
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

// carriedDepth bounds nested errors, and mostStack the stack of a crash in bytes.
const (
	carriedDepth = 4
	mostStack    = 16 << 10
)

// codec encodes errors, among them those of hosts and of migrated workflows.
type codec struct{}

// EncodeError implements script.ErrorCodec.
func (codec) EncodeError(err error) []byte {
	if err == nil {
		return nil
	}
	data, fault := json.Marshal(carryError(err, carriedDepth))
	if fault != nil {
		panic(fault) // texts and numbers
	}
	return data
}

func carryError(err error, depth int) *carried {
	c := &carried{}
	if depth == 0 {
		c.Text = []byte(script.Clip(err.Error()))
		return c
	}
	var described *script.Error
	if errors.As(err, &described) {
		c.Described = &carriedError{Msg: []byte(described.Msg), Pos: carryPos(described.Pos), Backtrace: []byte(described.Backtrace)}
		if described.Err != nil {
			c.Described.Cause = carryError(described.Err, depth-1)
		}
		return c
	}
	c.Text = []byte(script.Clip(err.Error()))
	c.carryFinal(err, depth)
	var failure *script.Failure
	if errors.As(err, &failure) {
		c.Failure = carryFailure(failure)
	}
	c.NotDone = script.IsNotDone(err)
	var lost *script.UnknownOutcome
	if c.Unknown = errors.As(err, &lost); c.Unknown && lost.Harmless != nil {
		c.Harmless = carryFailure(lost.Harmless)
	}
	c.Kind, c.Data = encodeHost(err)
	return c
}

// carryFinal stores what script.Final looks for.
func (c *carried) carryFinal(err error, depth int) {
	var (
		limit     *script.LimitError
		cancelled *script.Cancelled
		crash     *script.Crash
		journal   *script.JournalError
	)
	if errors.As(err, &journal) {
		c.Journal = carryError(journal.Err, depth-1)
	}
	if errors.As(err, &limit) {
		c.Limit = &carriedLimit{limit.Limit, limit.Value, carryPos(limit.Pos)}
	}
	if errors.As(err, &cancelled) {
		c.Cancelled = carryError(cancelled.Cause, depth-1)
	}
	if errors.As(err, &crash) {
		c.Crash = &carriedCrash{[]byte(script.Clip(fmt.Sprint(crash.Value))), crash.Stack[:min(len(crash.Stack), mostStack)]}
	}
	c.Suspended = errors.As(err, new(*script.Suspended))
	errors.As(err, &c.Diverged)
	errors.As(err, &c.Interrupted)
	errors.As(err, &c.Busy)
}

// farError is a decoded error: its text, and the errors that it wraps.
type farError struct {
	text   string
	causes []error
}

func (e *farError) Error() string   { return e.text }
func (e *farError) Unwrap() []error { return e.causes }

// DecodeError implements script.ErrorCodec.
func (codec) DecodeError(data []byte, known script.Known) error {
	if data == nil {
		return nil
	}
	var c carried
	if json.Unmarshal(data, &c) != nil {
		return &script.WorkerError{Why: "it sent a malformed error"}
	}
	return carrier{known}.error(&c)
}

// carrier decodes errors.
type carrier struct{ script.Known }

func (r carrier) error(c *carried) error {
	if d := c.Described; d != nil {
		e := &script.Error{Msg: string(d.Msg), Pos: d.Pos.position(), Backtrace: string(d.Backtrace)}
		if d.Cause != nil {
			e.Err = r.error(d.Cause)
		}
		return e
	}
	causes := r.causes(c)
	text := string(c.Text)
	for _, cause := range causes {
		if bad, ok := cause.(*script.WorkerError); ok {
			return bad
		}
	}
	var err error = &farError{text, causes}
	if len(causes) == 1 && causes[0].Error() == text {
		err = causes[0]
	}
	if c.NotDone {
		err = script.NotDone(err)
	}
	if c.Unknown {
		lost := &script.UnknownOutcome{Err: err}
		if c.Harmless != nil {
			lost.Harmless = c.Harmless.failure()
		}
		err = lost
	}
	return err
}

// causes returns the errors that the decoded error wraps.
func (r carrier) causes(c *carried) (causes []error) {
	if l := c.Limit; l != nil {
		causes = append(causes, &script.LimitError{Limit: l.Limit, Value: l.Value, Pos: l.Pos.position()})
	}
	if f := c.Failure; f != nil {
		causes = append(causes, f.failure())
	}
	switch {
	case c.Suspended && r.Suspended != nil:
		causes = append(causes, r.Suspended)
	case c.Suspended:
		causes = append(causes, &script.WorkerError{Why: "it sent an invalid message: a suspension without a question"})
	}
	if c.Cancelled != nil {
		cause := r.Cause
		if cause == nil || cause.Error() != string(c.Cancelled.Text) {
			cause = r.error(c.Cancelled)
		}
		causes = append(causes, &script.Cancelled{Cause: cause})
	}
	if c.Journal != nil {
		causes = append(causes, &script.JournalError{Err: r.error(c.Journal)})
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
		causes = append(causes, &script.Crash{Value: string(k.Value), Stack: k.Stack})
	}
	if c.Kind != "" {
		if known := decodeHost(c.Kind, c.Data); known != nil {
			causes = append(causes, known)
		}
	}
	return causes
}
