package config

import (
	"encoding/json"
	"time"

	"github.com/vmcp-dev/vmcp/internal/limits"
)

// Duration is a length of time: "300ms", "5m", "1h30m", "90d".
type Duration = limits.Duration

// ParseDuration reads the text form of a Duration.
func ParseDuration(text string) (time.Duration, error) { return limits.ParseDuration(text) }

// Bytes is an amount of memory: "256MB".
type Bytes = limits.Bytes

// Raw is free-form JSON, such as a JSON Schema, kept as bytes.
type Raw struct {
	JSON json.RawMessage `json:"-"`
}

// MarshalJSON returns the bytes as they are.
func (r Raw) MarshalJSON() ([]byte, error) {
	if len(r.JSON) == 0 {
		return []byte("null"), nil
	}
	return r.JSON, nil
}

// UnmarshalJSON keeps a copy of b.
func (r *Raw) UnmarshalJSON(b []byte) error {
	r.JSON = append(r.JSON[:0], b...)
	return nil
}

// IsZero reports whether there is no value.
func (r Raw) IsZero() bool { return len(r.JSON) == 0 }
