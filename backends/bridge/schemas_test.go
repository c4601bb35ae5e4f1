package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestSchemasAreBounded: lists and names of any length use bounded memory.
func TestSchemasAreBounded(t *testing.T) {
	page := func(from, n int, header string) json.RawMessage {
		var tools []string
		for i := range n {
			tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":%q}}}}`, from+i, header))
		}
		return json.RawMessage(`{"tools":[` + strings.Join(tools, ",") + `]}`)
	}
	var s schemas
	s.learn(page(0, maxSchemas+100, "A"))
	if len(s.all) != maxSchemas {
		t.Errorf("%d tools are known, want %d", len(s.all), maxSchemas)
	}
	s.learn(page(0, 1, strings.Repeat("A", maxSchemaBytes)))
	if s.all["t0"] != nil || len(s.all) != maxSchemas-1 {
		t.Errorf("what is too long is kept, or what was known before is: %d tools", len(s.all))
	}
}
