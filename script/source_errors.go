package script

import (
	"errors"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"
)

// Error is an error in a script, with its position.
type Error struct {
	// Msg says what is wrong, without the position.
	Msg string
	// Pos is the innermost position in a script; the zero value if it is not known.
	Pos syntax.Position
	// Backtrace lists the calls that led to Pos, outermost first; "" for errors found before a run.
	Backtrace string
	// Err is the cause: a *script.LimitError, a *script.Failure, the error of a host; nil if there is only a message.
	Err error
}

// Error returns "file:line:column: message".
func (e *Error) Error() string {
	if !e.Pos.IsValid() {
		return e.Msg
	}
	return e.Pos.String() + ": " + e.Msg
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errors are all the problems that were found in a program before it ran.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// listed returns err, of a parser or resolver, as Errors.
func listed(err error) Errors {
	var (
		list Errors
		one  *Error
	)
	if err = located(err); errors.As(err, &list) {
		return list
	}
	errors.As(err, &one) // Located returns no other type
	return Errors{one}
}

// located returns the errors of the parser and the resolver as Errors.
func located(err error) error {
	var (
		ours Errors
		one  *Error
		syn  syntax.Error
		list resolve.ErrorList
	)
	switch {
	case errors.As(err, &ours), errors.As(err, &one):
		return err
	case errors.As(err, &syn):
		return Errors{{Msg: syn.Msg, Pos: syn.Pos}}
	case errors.As(err, &list):
		for _, e := range list {
			ours = append(ours, &Error{Msg: e.Msg, Pos: e.Pos})
		}
		return ours
	}
	return Errors{{Msg: err.Error(), Err: err}}
}

// placed reports whether an error of the parser or resolver has a position.
func placed(err error) bool {
	var one *Error
	return errors.As(located(err), &one) && one.Pos.IsValid()
}
