package meter

import "github.com/vmcp-dev/vmcp/script/internal/ending"

// LimitError says that a run reached one of its limits. A script cannot catch it.
type LimitError = ending.LimitError
