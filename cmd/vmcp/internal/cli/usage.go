package cli

// This part of the package has errors of commands with an exit code of their own, or with a hint.

// Error is a wrong argument that only the running command finds: exit code 2.
type Error string

func (e Error) Error() string { return string(e) }

// Hint is an error with a hint.
type Hint struct {
	err  error
	hint string
}

// WithHint adds a hint to err: a sentence without a full stop.
func WithHint(err error, hint string) *Hint { return &Hint{err: err, hint: hint} }

func (e *Hint) Error() string { return e.err.Error() }
func (e *Hint) Unwrap() error { return e.err }

// Hint returns the hint.
func (e *Hint) Hint() string { return e.hint }
