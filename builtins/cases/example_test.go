package cases_test

import (
	"encoding/json"
	"fmt"

	"github.com/vmcp-dev/vmcp/builtins/cases"
)

// A result is compared with the one of a recorded case: the order of members does not count, their types do.
func ExampleDiff() {
	recorded := json.RawMessage(`{"id": "r_7", "cents": 1250, "notes": ["late"]}`)
	today := json.RawMessage(`{"notes": ["late"], "cents": "1250", "id": "r_7"}`)
	fmt.Println(cases.Explain(cases.Diff(recorded, today)))
	// Output: /cents: 1250 → "1250"
}
