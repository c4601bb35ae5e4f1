package secret

import "log/slog"

// Value is a secret that nothing shows: whatever prints, logs or encodes it writes [redacted]. Values are
// compared with ==.
type Value struct{ text string }

// redacted is what is shown of a Value.
const redacted = "[redacted]"

// NewValue makes a Value of a text.
func NewValue(text string) Value { return Value{text} }

// Reveal returns the text, for those who send it to where it belongs.
func (v Value) Reveal() string { return v.text }

// String is what is shown.
func (Value) String() string { return redacted }

// GoString is what is shown.
func (Value) GoString() string { return redacted }

// MarshalText is what is shown, in JSON, too.
func (Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue is what is shown.
func (Value) LogValue() slog.Value { return slog.StringValue(redacted) }
