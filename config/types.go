package config

import (
	"time"

	"github.com/vmcp-dev/vmcp/config/internal/document"
	"github.com/vmcp-dev/vmcp/internal/limits"
)

// Duration is a length of time: "300ms", "5m", "1h30m", "90d".
type Duration = limits.Duration

// ParseDuration reads the text form of a Duration.
func ParseDuration(text string) (time.Duration, error) { return limits.ParseDuration(text) }

// Bytes is an amount of memory: "256MB".
type Bytes = limits.Bytes

// Raw is free-form JSON, such as a JSON Schema, kept as bytes.
type Raw = document.Raw
