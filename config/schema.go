package config

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schemaJSON []byte

// Schema returns the JSON Schema of the configuration file, for editors.
func Schema() []byte { return slices.Clone(schemaJSON) }
