package schema_test

import (
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/schema"
)

func TestFlaws(t *testing.T) {
	for _, tt := range []struct {
		draft     schema.Draft
		raw, want string
	}{
		{schema.Draft2020, `{"type":"object","properties":{"a":{"type":"text"}}}`, `[{[properties a type] not a JSON Schema: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'} {[properties a type] not a JSON Schema: got string, want array}]`},
		{schema.Draft2020, `{"type":"object","required":"a","properties":{"a":{"minimum":"1"}}}`, `[{[properties a minimum] not a JSON Schema: got string, want number} {[required] not a JSON Schema: got string, want array}]`},
		{schema.Draft2020, `{"$ref":"https://example.com/x.json"}`, `[{[] failing loading "https://example.com/x.json": a $ref must point into the schema itself}]`},
		{schema.Draft2020, `{"type":`, `[{[] not JSON: unexpected EOF}]`},
		{schema.Draft2020, `{"$ref":"#/$defs/a","$defs":{"a":{}}}`, `[]`},
		{schema.Draft7, `{"type":"object","definitions":{"a":{}},"dependencies":{"a":["b"]}}`, `[]`},
		{schema.Draft7, `{"dependencies":{"a":1}}`, `[{[dependencies a] not a JSON Schema: got number, want boolean or object} {[dependencies a] not a JSON Schema: got number, want array}]`},
	} {
		if got := fmt.Sprint(schema.Flaws([]byte(tt.raw), tt.draft)); got != tt.want {
			t.Errorf("Flaws(%s, %s)\n got %s\nwant %s", tt.raw, tt.draft, got, tt.want)
		}
	}
}
