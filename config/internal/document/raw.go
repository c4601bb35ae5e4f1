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

// Definition is a mapping that other packages parse: here only its name is read.
type Definition struct {
	// Name is the field name of the mapping.
	Name string
	// Raw is the whole definition as JSON, with its keys in the order of the file.
	Raw Raw
	// Pos is the position of the definition.
	Pos diag.Pos
}

// MarshalJSON returns Raw.
func (c Definition) MarshalJSON() ([]byte, error) { return c.Raw.MarshalJSON() }

// UnmarshalJSON sets Name and Raw, and no Pos.
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
