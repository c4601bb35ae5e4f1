package schema

import (
	"fmt"
	"testing"
)

func TestFlaws(t *testing.T) {
	for _, tt := range []struct {
		draft     Draft
		raw, want string
	}{
		{Draft2020, `{"type":"object","properties":{"a":{"type":"text"}}}`, `[{[properties a type] not a JSON Schema: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'} {[properties a type] not a JSON Schema: got string, want array}]`},
		{Draft2020, `{"type":"object","required":"a","properties":{"a":{"minimum":"1"}}}`, `[{[properties a minimum] not a JSON Schema: got string, want number} {[required] not a JSON Schema: got string, want array}]`},
		{Draft2020, `{"$ref":"https://example.com/x.json"}`, `[{[] failing loading "https://example.com/x.json": a $ref must point into the schema itself}]`},
		{Draft2020, `{"type":`, `[{[] not JSON: unexpected EOF}]`},
		{Draft2020, `{"$ref":"#/$defs/a","$defs":{"a":{}}}`, `[]`},
		{Draft7, `{"type":"object","definitions":{"a":{}},"dependencies":{"a":["b"]}}`, `[]`},
		{Draft7, `{"dependencies":{"a":1}}`, `[{[dependencies a] not a JSON Schema: got number, want boolean or object} {[dependencies a] not a JSON Schema: got number, want array}]`},
	} {
		if got := fmt.Sprint(Flaws([]byte(tt.raw), tt.draft)); got != tt.want {
			t.Errorf("Flaws(%s, %s)\n got %s\nwant %s", tt.raw, tt.draft, got, tt.want)
		}
	}
}
