package config

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a length of time written as in Go: "300ms", "5m", "1h30m".
type Duration time.Duration

// Std returns d as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.Std().String()) }

// UnmarshalJSON reads the text form.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf(`want a duration such as "30s" or "5m", have %s`, b)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf(`want a duration such as "30s" or "5m", have %q`, s)
	}
	*d = Duration(v)
	return nil
}

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
