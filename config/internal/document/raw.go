package document

import (
	"encoding/json"

	"github.com/vmcp-dev/vmcp/internal/diag"
)

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

// Definition is a mapping with a name that others read: here it is only named and kept.
type Definition struct {
	// Name is its field of that name.
	Name string
	// Raw is the whole definition as JSON, its keys in the order of the file.
	Raw Raw
	// Pos is where the definition begins.
	Pos diag.Pos
}

// MarshalJSON writes the definition as it was read.
func (c Definition) MarshalJSON() ([]byte, error) { return c.Raw.MarshalJSON() }

// UnmarshalJSON keeps the definition; there is no Pos.
func (c *Definition) UnmarshalJSON(b []byte) error {
	var named struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(b, &named); err != nil {
		return err
	}
	c.Name = named.Name
	return c.Raw.UnmarshalJSON(b)
}
