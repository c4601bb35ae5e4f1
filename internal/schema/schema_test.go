package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/schema"
)

const deploy = `{
	"type": "object",
	"required": ["service"],
	"additionalProperties": false,
	"properties": {
		"service": {"type": "string", "minLength": 2},
		"replicas": {"type": "integer", "minimum": 1, "default": 1},
		"stage": {"enum": ["test", "live"], "default": "test"},
		"steps": {"type": "array", "items": {"$ref": "#/$defs/step"}},
		"notify": {"type": "object", "default": {}, "properties": {"by": {"type": "string", "default": "mail"}}}
	},
	"$defs": {"step": {"type": "object", "required": ["run"], "properties": {
		"run": {"type": "string"}, "retries": {"type": "integer", "default": 3}
	}}}
}`

func TestViolationsAreAllListedWithTheirPath(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(deploy))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ value, want string }{
		{`{"service": "web"}`, ``},
		{`{"service": "web", "steps": [{"run": "a"}]}`, ``},
		{`{}`, `service: is required`},
		{`[]`, `want object, have array`},
		{`{"service": 1, "replicas": 0.5}`, `replicas: want integer, have number; service: want string, have number`},
		{`{"service": "web", "sevrice": 1}`, `sevrice: is not a known property`},
		{`{"service": "web", "stage": "prod"}`, `stage: want one of "test", "live", have "prod"`},
		{`{"service": "web", "steps": [{"run": "a"}, {"retries": "x"}]}`,
			`steps[1].retries: want integer, have string; steps[1].run: is required`},
		{`{"service": "w"}`, `service: minLength: got 1, want 2`},
		{`{"service": "web", "replicas": 1e999999999}`, `the number 1e999999999: want an exponent of at most 4096`},
		{`{`, `not JSON: unexpected EOF`},
	} {
		got := ""
		if err := s.Validate(json.RawMessage(tt.value)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Validate(%s)\n got %s\nwant %s", tt.value, got, tt.want)
		}
	}
}

func TestAlternativesSayWhyEachDoesNotFit(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(`{"anyOf": [{"type": "string"}, {"type": "object", "required": ["id"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `fits none of the alternatives: id: is required | want string, have object`
	if err := s.Validate(json.RawMessage(`{}`)); err == nil || err.Error() != want {
		t.Errorf("Validate({})\n got %v\nwant %s", err, want)
	}
}

func TestDefaultsFillEveryLevelAndKeepTheRest(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(deploy))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ value, want string }{
		{`{"service":"web"}`, `{"service":"web","notify":{"by":"mail"},"replicas":1,"stage":"test"}`},
		{`{"z":9007199254740993,"a":1.0,"replicas":2,"stage":"live","notify":{"by":"x"}}`,
			`{"z":9007199254740993,"a":1.0,"replicas":2,"stage":"live","notify":{"by":"x"}}`},
		{`{"replicas":2,"stage":"live","notify":{},"steps":[{"run":"a"},{"run":"b","retries":0}]}`,
			`{"replicas":2,"stage":"live","notify":{"by":"mail"},"steps":[{"run":"a","retries":3},{"run":"b","retries":0}]}`},
		{`"no object"`, `"no object"`},
	} {
		got, err := s.Defaults(json.RawMessage(tt.value))
		if err != nil || string(got) != tt.want {
			t.Errorf("Defaults(%s)\n got %s, %v\nwant %s", tt.value, got, err, tt.want)
		}
	}
}

func TestDefaultsOfARecursiveSchema(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(`{"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
		"next": {"$ref": "#/$defs/node"}, "weight": {"default": 1}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Defaults(json.RawMessage(`{"next":{"next":{}}}`))
	if want := `{"next":{"next":{"weight":1},"weight":1},"weight":1}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestDefaultsOfOlderDrafts(t *testing.T) {
	s, err := schema.Compile(json.RawMessage(`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {
		"list": {"items": {"properties": {"a": {"default": 1}}}},
		"pair": {"items": [{}, {"properties": {"b": {"default": 2}}}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Defaults(json.RawMessage(`{"list":[{},{"a":0}],"pair":[{},{}]}`))
	if want := `{"list":[{"a":1},{"a":0}],"pair":[{},{"b":2}]}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestFormatsAreCheckedInOurOwnSchemasOnly(t *testing.T) {
	const raw = `{"format": "email"}`
	ours, err := schema.Compile(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := schema.CompileForeign(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	if err := ours.Validate(json.RawMessage(`"nobody"`)); err == nil {
		t.Error("our own schema took an address without @")
	}
	if err := theirs.Validate(json.RawMessage(`"nobody"`)); err != nil {
		t.Errorf("a foreign schema: %v", err)
	}
}

func TestWhatClientsSendDoesNotMakeLongWorkOrLongErrors(t *testing.T) {
	for _, tt := range []struct{ schema, value, want string }{
		{`{"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"n": {"$ref": "#/$defs/a"}, "d": {"default": 1}}}}}`,
			strings.Repeat(`{"n":`, 9000) + "1" + strings.Repeat("}", 9000), "nested too deep to fill in defaults"},
		{`{"items": {"type": "string"}}`, "[" + strings.Repeat("1,", 1000) + "1]", "; and 951 more"},
		{`{"pattern": "(x+x+)+y"}`, `"` + strings.Repeat("x", 100000) + `"`, "x…"},
		{`{"multipleOf": 0.1}`, `1e99999`, "want an exponent of at most 4096"},
	} {
		s, err := schema.Compile(json.RawMessage(tt.schema))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Defaults(json.RawMessage(tt.value))
		if err == nil {
			err = s.Validate(json.RawMessage(tt.value))
		}
		if err == nil || len(err.Error()) > 4000 || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s\n got %.300v\nwant %s", tt.schema, err, tt.want)
		}
	}
}

func TestBadSchemasAreRefused(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{"type": "strnig"}`, `type: `},
		{`{"$ref": "https://example.com/other.json"}`, `a $ref must point into the schema itself`},
		{`{"$ref": "file:///etc/passwd"}`, `a $ref must point into the schema itself`},
		{`{"pattern": "(?=x)"}`, `pattern`},
		{`{`, `not JSON`},
	} {
		_, err := schema.Compile(json.RawMessage(tt.schema))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Compile(%s)\n got %v\nwant %s", tt.schema, err, tt.want)
		}
	}
	if _, err := schema.CompileForeign(json.RawMessage(`{"pattern": "(?=x)"}`)); err != nil {
		t.Errorf("CompileForeign with a foreign pattern: %v", err)
	}
}
