package source

import (
	"errors"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"
)

// Error is what went wrong in a script, and where.
type Error struct {
	// Msg says what went wrong, without the place.
	Msg string
	// Pos is the innermost place in a script.
	Pos syntax.Position
	// Backtrace lists the calls that led there, outermost first; "" for errors found before a run.
	Backtrace string
	// Err is the cause: a *LimitError, a *Failure, the error of a host; nil when there is only text.
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

// Unwrap returns the problems one by one.
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, err := range e {
		errs[i] = err
	}
	return errs
}

// listed is err, of a parser or resolver, as Errors.
func listed(err error) Errors {
	var (
		list Errors
		one  *Error
	)
	if err = Located(err); errors.As(err, &list) {
		return list
	}
	errors.As(err, &one) // Located returns nothing else
	return Errors{one}
}

// Located turns the errors of parser and resolver into ours.
func Located(err error) error {
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

// Placed reports whether an error says where in a file it is.
func Placed(err error) bool {
	var one *Error
	return errors.As(Located(err), &one) && one.Pos.IsValid()
}
