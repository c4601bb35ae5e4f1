package secret

import "log/slog"

// Value is a secret that is printed, logged and encoded as [redacted]. Values can be compared with ==.
type Value struct{ text string }

// redacted is the printed form of a Value.
const redacted = "[redacted]"

// NewValue makes a Value of a text.
func NewValue(text string) Value { return Value{text} }

// Reveal returns the text, for use in a request.
func (v Value) Reveal() string { return v.text }

// String returns [redacted].
func (Value) String() string { return redacted }

// GoString returns [redacted].
func (Value) GoString() string { return redacted }

// MarshalText returns [redacted], for JSON, too.
func (Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns [redacted].
func (Value) LogValue() slog.Value { return slog.StringValue(redacted) }
