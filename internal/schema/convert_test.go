package schema_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/schema"
)

func TestConvert(t *testing.T) {
	const text, integer, number, boolean = `{"type":"string"}`, `{"type":"integer"}`, `{"type":"number"}`, `{"type":"boolean"}`
	for _, tt := range []struct{ schema, raw, want, made string }{
		{text, `42`, `"42"`, "a to string"},
		{text, `9.5`, `"9.5"`, "a to string"},
		{text, `3.0`, `"3"`, "a to string"},
		{text, `true`, `"true"`, "a to string"},
		{text, `"42"`, `"42"`, ""},
		{text, `null`, `null`, ""},
		{text, `[1]`, `[1]`, ""},
		{text, `{"b":1}`, `{"b":1}`, ""},
		{integer, `"42"`, `42`, "a to integer"},
		{integer, `"-7"`, `-7`, "a to integer"},
		{integer, `"0"`, `0`, "a to integer"},
		{integer, `"-0"`, `"-0"`, ""},
		{integer, `"007"`, `"007"`, ""},
		{integer, `"1e3"`, `"1e3"`, ""},
		{integer, `"+1"`, `"+1"`, ""},
		{integer, `" 1"`, `" 1"`, ""},
		{integer, `"3.0"`, `"3.0"`, ""},
		{integer, `""`, `""`, ""},
		{integer, `true`, `true`, ""},
		{integer, `"123456789012345678901234567890"`, `123456789012345678901234567890`, "a to integer"},
		{number, `"9.5"`, `9.5`, "a to number"},
		{number, `"42"`, `42`, "a to number"},
		{number, `"3.0"`, `3.0`, "a to number"},
		{number, `"9.50"`, `"9.50"`, ""},
		{number, `".5"`, `".5"`, ""},
		{number, `"0x1p-2"`, `"0x1p-2"`, ""},
		{number, `"NaN"`, `"NaN"`, ""},
		{number, `"NaN.0"`, `"NaN.0"`, ""},
		{number, `"+Inf.0"`, `"+Inf.0"`, ""},
		{number, `"-Inf.0"`, `"-Inf.0"`, ""},
		{number, `"3.0.0"`, `"3.0.0"`, ""},
		{number, `"-0.0"`, `"-0.0"`, ""},
		{number, `"-3.0"`, `-3.0`, "a to number"},
		{number, `"9007199254740993"`, `"9007199254740993"`, ""},
		{number, `"-9007199254740991"`, `-9007199254740991`, "a to number"},
		{number, `"9007199254740993999"`, `"9007199254740993999"`, ""},
		{boolean, `"true"`, `true`, "a to boolean"},
		{boolean, `"True"`, `"True"`, ""},
		{boolean, `"1"`, `"1"`, ""},
		{boolean, `1`, `1`, ""},
		{`{"type":["string","null"]}`, `1`, `"1"`, "a to string"},
		{`{"type":["integer","number"]}`, `"1"`, `1`, "a to number"},
		{`{"type":["string","integer"]}`, `true`, `true`, ""},
		{`{"type":["integer","object"]}`, `"1"`, `"1"`, ""},
		{`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `"1"`, `"1"`, ""},
		{`{"type":"integer","oneOf":[{"minimum":1}]}`, `"1"`, `"1"`, ""},
		{`{}`, `1`, `1`, ""},
		{`{"enum":["1"]}`, `1`, `1`, ""},
		{`{"$ref":"#/$defs/n"}`, `"1"`, `1`, "a to integer"},
		{`{"allOf":[{"$ref":"#/$defs/n"}]}`, `"1"`, `1`, "a to integer"},
		{`{"$ref":"#/$defs/loop"}`, `{"next":{"next":{"n":"1"}}}`, `{"next":{"next":{"n":1}}}`, "a.next.next.n to integer"},
		{`{"type":"object","properties":{"b":{"type":"integer"}}}`, `{"b":"1", "c":"1"}`, `{"b":1,"c":"1"}`, "a.b to integer"},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, `{"b":1}`, `{"b":"1"}`, "a.b to string"},
		{`{"type":"object","patternProperties":{"^n_":{"type":"integer"}},"additionalProperties":{"type":"string"}}`, `{"n_a":42,"b":1}`, `{"n_a":42,"b":"1"}`, "a.b to string"},
		{`{"type":"object","patternProperties":{"^n_":{"type":"integer"}},"additionalProperties":{"type":"string"}}`, `{"n_a":"42"}`, `{"n_a":42}`, "a.n_a to integer"},
		{`{"type":"object","patternProperties":{"^n":{"type":"integer"},"^n_":{"type":"number"}}}`, `{"n_a":"42"}`, `{"n_a":"42"}`, ""},
		{`{"type":"object","allOf":[{"patternProperties":{"^n_":{"type":"integer"}}},{"additionalProperties":true}]}`, `{"n_a":"4"}`, `{"n_a":4}`, "a.n_a to integer"},
		{`{"type":"array","items":{"type":"integer"}}`, `["1",2,"x"]`, `[1,2,"x"]`, "a[0] to integer"},
		{`{"type":"array","prefixItems":[{"type":"integer"}]}`, `["1","1"]`, `[1,"1"]`, "a[0] to integer"},
	} {
		s, err := schema.CompileForeign(json.RawMessage(`{"type":"object","properties":{"a":` + tt.schema + `},
			"$defs":{"n":{"type":"integer"},"loop":{"type":"object","properties":{"next":{"$ref":"#/$defs/loop"},"n":{"type":"integer"}}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		raw := json.RawMessage(`{"a":` + tt.raw + `}`)
		have, made := s.Convert(raw)
		text := ""
		for _, c := range made {
			text = fmt.Sprint(c)
		}
		if string(have) != `{"a":`+tt.want+`}` || text != tt.made || len(made) > 1 {
			t.Errorf("%s: Convert(%s) = %s, %v\nwant %s, %s", tt.schema, raw, have, made, tt.want, tt.made)
		}
		if like := schema.Like(have, raw); string(like) != string(have) {
			t.Errorf("Like(%s, %s) = %s", have, raw, like)
		}
	}
	if have := schema.Like(json.RawMessage(`{"a":"1","b":2}`), json.RawMessage(`{"a":2,"b":2,"c":3}`)); string(have) != `{"a":2,"b":2,"c":3}` {
		t.Errorf("Like changes what differs: %s", have)
	}
}

// TestConvertKeepsWhatFits: random arguments that fit a random schema are not changed, what Convert writes is JSON, and a
// second conversion changes nothing.
func TestConvertKeepsWhatFits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	var schemaOf func(depth int) string
	schemaOf = func(depth int) string {
		if depth == 0 || r.IntN(2) == 0 {
			return pick(`{"type":"string"}`, `{"type":"integer"}`, `{"type":"number"}`, `{"type":"boolean"}`, `{"type":["string","null"]}`,
				`{"type":["integer","string"]}`, `{"anyOf":[{"type":"integer"},{"type":"boolean"}]}`, `{"enum":["1",2]}`, `{}`, `{"const":"1"}`)
		}
		one, two := schemaOf(depth-1), schemaOf(depth-1)
		return pick(`{"type":"array","items":`+one+`}`, `{"type":"array","prefixItems":[`+one+`],"items":`+two+`}`,
			`{"properties":{"a":`+one+`},"additionalProperties":`+two+`}`, `{"patternProperties":{"^n":`+one+`},"additionalProperties":`+two+`}`,
			`{"properties":{"na":`+one+`},"patternProperties":{"^n":`+two+`}}`, `{"allOf":[{"properties":{"a":`+one+`}},{"additionalProperties":`+two+`}]}`)
	}
	var valueOf func(depth int) string
	valueOf = func(depth int) string {
		if depth == 0 || r.IntN(2) == 0 {
			return pick(`"1"`, `1`, `"x"`, `2`, `true`, `"true"`, `3.0`, `"3.0"`, `null`, `"NaN.0"`, `"-Inf.0"`, `1e3`, `"9007199254740993"`, `-0`, `12345678901234567890`)
		}
		one, two := valueOf(depth-1), valueOf(depth-1)
		return pick(`[`+one+`,`+two+`]`, `{"a":`+one+`,"na":`+two+`}`, `{"n":`+one+`,"b":`+two+`}`)
	}
	fitted, changed := 0, 0
	for range 10_000 {
		text := `{"properties":{"v":` + schemaOf(3) + `}}`
		s, err := schema.CompileForeign(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		raw := json.RawMessage(`{"v":` + valueOf(3) + `}`)
		have, made := s.Convert(raw)
		again, more := s.Convert(have)
		fits := s.Validate(raw) == nil
		if !json.Valid(have) || fits && len(made) > 0 || len(more) > 0 || string(again) != string(have) {
			t.Fatalf("%s: Convert(%s) = %s, %v; again %s; fits before: %t", text, raw, have, made, again, fits)
		}
		if fits {
			fitted++
		}
		if len(made) > 0 {
			changed++
		}
	}
	if fitted < 1000 || changed < 300 {
		t.Errorf("%d fitted, %d were changed: too few to show anything", fitted, changed)
	}
}
