package script

import (
	"fmt"
	"time"

	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// Limits bound one run. A field that is zero has its default.
type Limits = limits.Run

// DefaultLimits returns the limits of a run that sets none.
func DefaultLimits() Limits { return limits.Defaults() }

// reached returns the error of a run that has reached a limit.
func reached(limit string, value any) error {
	return &LimitError{Limit: limit, Value: fmt.Sprint(value)}
}

// LimitError says that a run reached one of its limits. A script cannot catch it.
type LimitError = meter.LimitError

// Bytes is a number of bytes; its text is what the configuration reads: "256MB", "1000B".
type Bytes = limits.Bytes

// Duration is a length of time; its text is what the configuration reads: "5m0s".
type Duration = limits.Duration

// ParseDuration parses a length of time as the configuration writes it: "1m30s", "2d".
func ParseDuration(text string) (time.Duration, error) { return limits.ParseDuration(text) }
