package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/schema"
)

// TestExample: the example of each schema is valid.
func TestExample(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"object","properties":{"path":{"type":"string"},"deep":{"type":"boolean"}},"required":["path"]}`:                                                `{"path":"text"}`,
		`{"type":"object","properties":{"b":{"type":"integer","minimum":7},"a":{"type":"string"}},"required":["b","a"]}`:                                         `{"b":7,"a":"text"}`,
		`{"type":"object","properties":{"q":{"type":"string"}}}`:                                                                                                 `{"q":"text"}`,
		`{"type":"object","properties":{"q":{"enum":["x","y"]}},"required":["q"]}`:                                                                               `{"q":"x"}`,
		`{"type":"object","properties":{"q":{"const":3}},"required":["q"]}`:                                                                                      `{"q":3}`,
		`{"type":"object","properties":{"q":{"$ref":"#/$defs/a~1b"}},"required":["q"],"$defs":{"a/b":{"type":"array","items":{"type":"integer"},"minItems":2}}}`: `{"q":[1,1]}`,
		`{"type":"object","properties":{"t":{"$ref":"#/$defs/tree"}},"required":["t"],"$defs":{"tree":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["name","children"]}}}`:                                                               "",
		`{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}]}`:                                                                                                                                                       `{"a":"text"}`,
		`{"type":"object","required":["x"],"properties":{"x":{"anyOf":[{"type":"string","minLength":3,"maxLength":2},{"type":"null"}]}}}`:                                                                                                                                                                                   `{"x":null}`,
		`{"allOf":[{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}},{"required":["b"],"properties":{"b":{"type":"number","exclusiveMinimum":0,"maximum":0.5}}}]}`:                                                                                                                                    "",
		`{"type":"object","required":["when","who","where","id"],"properties":{"when":{"type":"string","format":"date-time"},"who":{"type":"string","format":"email"},"where":{"type":"string","format":"uri"},"id":{"type":"string","format":"uuid"}}}`:                                                                    "",
		`{"type":"object","required":["d","t","u","i","j","h"],"properties":{"d":{"type":"string","format":"date"},"t":{"type":"string","format":"time"},"u":{"type":"string","format":"duration"},"i":{"type":"string","format":"ipv4"},"j":{"type":"string","format":"ipv6"},"h":{"type":"string","format":"hostname"}}}`: "",
		`{"type":"object","required":["c"],"properties":{"c":{"type":"string","pattern":"^[A-Z]{3}-\\d{2,4}$"}}}`:                                                                                                                                                                                                           `{"c":"AAA-00"}`,
		`{"type":"object","required":["n"],"properties":{"n":{"type":"integer","multipleOf":5,"minimum":12}}}`:                                                                                                                                                                                                              `{"n":15}`,
		`{"type":"object","required":["n"],"properties":{"n":{"type":"integer","maximum":-3}}}`:                                                                                                                                                                                                                             `{"n":-3}`,
		`{"type":"object","required":["l"],"properties":{"l":{"type":"array","uniqueItems":true,"minItems":3,"items":{"type":"string"}}}}`:                                                                                                                                                                                  `{"l":["text","text2","text3"]}`,
		`{"type":"object","required":["l"],"properties":{"l":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"minItems":2}}}`:                                                                                                                                                                          `{"l":["text",1]}`,
		`{"type":"object","minProperties":2,"additionalProperties":{"type":"integer"}}`:                                                                                                                                                                                                                                     `{"key1":1,"key2":1}`,
		`{"type":["null","object"],"properties":{"a":{"type":"string"}},"required":["a"]}`:                                                                                                                                                                                                                                  "",
		`{"type":"object","required":["s"],"properties":{"s":{"type":"string","minLength":30}}}`:                                                                                                                                                                                                                            "",
		`{"type":"object","required":["s"],"properties":{"s":{"type":"string","default":"of the schema"}}}`:                                                                                                                                                                                                                 `{"s":"of the schema"}`,
		`{"type":"object","required":["s"],"properties":{"s":{"type":"string","examples":["like this"]}}}`:                                                                                                                                                                                                                  `{"s":"like this"}`,
		`{"type":"object","properties":{"mode":{"enum":["a","b"]}},"required":["mode"],"if":{"properties":{"mode":{"const":"a"}}},"then":{"required":["x"]}}`:                                                                                                                                                               "",
		`{}`: `{}`, `{"type":"object","additionalProperties":false}`: `{}`, `true`: `{}`,
	} {
		got, ok := schema.Example([]byte(raw))
		if !ok || want != "" && string(got) != want {
			t.Errorf("Example(%s) = %s, %v; want %s", raw, got, ok, want)
			continue
		}
		s, err := schema.Compile([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(got); err != nil {
			t.Errorf("Example(%s) = %s: %v", raw, got, err)
		}
	}
}

// TestNoExample: schemas without a valid value, or without a small one, have no example, which is found
// quickly.
func TestNoExample(t *testing.T) {
	wide := `{"$defs":{"x":{"type":"array","minItems":100,"items":{"$ref":"#/$defs/x"}}},"$ref":"#/$defs/x"}`
	for _, raw := range []string{
		`false`, `{"type":"object","required":["a"],"properties":{"a":false}}`, `{"not":{}}`, `[`, `{"type":3}`, `{"$ref":"https://example.com/x"}`, wide,
		`{"$defs":{"x":{"$ref":"#/$defs/x"}},"$ref":"#/$defs/x"}`, `{"$defs":{"x":{"type":"object","required":["n"],"properties":{"n":{"$ref":"#/$defs/x"}}}},"$ref":"#/$defs/x"}`,
		`{"type":"object","required":["s"],"properties":{"s":{"type":"string","minLength":100000}}}`,
	} {
		if got, ok := schema.Example([]byte(raw)); ok {
			t.Errorf("Example(%s) = %.100s", raw, got)
		}
	}
}

func FuzzExample(f *testing.F) {
	f.Add(`{"type":"object","required":["a"],"properties":{"a":{"pattern":"(a|b)+c"}}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		if got, ok := schema.Example([]byte(raw)); ok && (!json.Valid(got) || strings.ContainsRune(string(got), '\n')) {
			t.Errorf("Example(%s) = %s", raw, got)
		}
	})
}
