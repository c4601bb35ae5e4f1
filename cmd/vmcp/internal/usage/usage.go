// Package usage has the errors of commands that are more than a text: which exit code they
// lead to, and what to do about them.
package usage

// Error is an argument that only a running command finds wrong: exit code 2.
type Error string

func (e Error) Error() string { return string(e) }

// Hint adds what to do about an error.
type Hint struct {
	err  error
	hint string
}

// WithHint says what to do about err, in a sentence without a full stop.
func WithHint(err error, hint string) *Hint { return &Hint{err: err, hint: hint} }

func (e *Hint) Error() string { return e.err.Error() }
func (e *Hint) Unwrap() error { return e.err }

// Hint is what to do.
func (e *Hint) Hint() string { return e.hint }
