package cases

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

const pin = `p/w "ä+9` // stands in other characters in JSON, URLs and base64

// secretCase passes a secret on in every way that a run can.
func secretCase(t *testing.T) *Case {
	t.Helper()
	inJSON := func(v any) json.RawMessage {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	basic := base64.StdEncoding.EncodeToString([]byte("user:" + pin))
	return &Case{
		Version: Version, Tool: "login", Recorded: time.Unix(0, 0).UTC(),
		Arguments: inJSON(map[string]any{"user": "ann", "pin": pin, "tries": 3, "card": 4111111111111111}),
		Effects: []Effect{
			{Key: "0", Kind: "call", Name: "id_login", Args: inJSON(map[string]any{"p": pin, "u": "ann"}),
				Result: inJSON(map[string]any{
					"structuredContent": map[string]any{"session": "s-123456789", "deep": map[string]any{"list": []any{map[string]any{"accessToken": "tok-abcdef", "n": 1}}}},
					"content":           []any{map[string]any{"type": "text", "text": `{"session":"s-123456789","deep":{"list":[{"accessToken":"tok-abcdef","pin":"` + "\u00e4" + `"}]}}`}},
				})},
			{Key: "1", Kind: "call", Name: "web_get", Args: inJSON(map[string]any{"url": "https://a/?q=" + url.QueryEscape(pin), "Basic": basic, "x-api-key": "k-998877"}),
				Failure: &Failure{"tool", "refused " + pin + " with tok-abcdef and " + string(inJSON(pin))}},
			{Key: "2", Kind: "log", Name: "logged in with tok-abcdef"},
			{Key: "3", Kind: "elicit", Args: inJSON(map[string]any{"message": "Password?", "requestedSchema": map[string]any{"type": "object",
				"properties": map[string]any{"password": map[string]any{"type": "string"}, "code": map[string]any{"type": "integer", "x-secret": true}}}}),
				Result: inJSON(map[string]any{"action": "accept", "content": map[string]any{"password": "hunter2!", "code": 1234567}})},
		},
		Order:  []string{"0", "1", "2", "3"},
		Output: inJSON(map[string]any{"tok-abcdef": "said hunter2!", "code": 1234567, "card": "4111111111111111", "max_tokens": 500, "ok": true}),
	}
}

func secretSchemas(tool string) (input, output json.RawMessage) {
	switch tool {
	case "login":
		return json.RawMessage(`{"properties": {"pin": {"$ref": "#/$defs/pin"}, "card": {"allOf": [{"x-secret": true}]}}, "$defs": {"pin": {"type": "string", "writeOnly": true}}}`), nil
	case "id_login":
		return nil, json.RawMessage(`{"properties": {"session": {"format": "password"}}}`)
	}
	return nil, nil
}

func TestASecretIsNowhereInACase(t *testing.T) {
	c := secretCase(t)
	if err := c.Redact(Rules{Schemas: secretSchemas, Text: func(s string) string { return strings.ReplaceAll(s, "refused", "***") }}); err != nil {
		t.Fatal(err)
	}
	data, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"p/w", "p%2Fw", "p%2fw", "s-123456789", "tok-abcdef", "k-998877", "hunter2!", "1234567", "4111111111111111",
		base64.StdEncoding.EncodeToString([]byte(pin))[:8], base64.StdEncoding.EncodeToString([]byte("user:" + pin))[8:16], "refused"} {
		if strings.Contains(string(data), secret) {
			t.Errorf("%q is in the case:\n%s", secret, data)
		}
	}
	want := []string{"/arguments/card", "/arguments/pin", "/effects/0/result/content/0/text", "/effects/0/result/structuredContent/deep/list/0/accessToken",
		"/effects/0/result/structuredContent/session", "/effects/1/args/x-api-key", "/effects/3/result/content/code", "/effects/3/result/content/password"}
	if slices.Sort(c.Redacted); !slices.Equal(c.Redacted, want) {
		t.Errorf("redacted %q\nwant %q", c.Redacted, want)
	}
	for _, kept := range []string{`"max_tokens": 500`, `"tries": 3`, `"ok": true`, `"user": "ann"`, `"type": "string"`} {
		if !strings.Contains(string(data), kept) {
			t.Errorf("%s is not in the case any more:\n%s", kept, data)
		}
	}
	if _, err := Parse("login.json", data); err != nil {
		t.Error(err)
	}
}

func TestTheSameValueHasTheSamePlaceholder(t *testing.T) {
	c := &Case{
		Tool: "x", Arguments: json.RawMessage(`{"token": "abc123", "password": "abc12", "n": 9007199254740993}`),
		Effects: []Effect{{Key: "0", Kind: "call", Name: "y", Args: json.RawMessage(`{"q": "abc123", "r": "abc12", "s": "tell abc123!"}`)}},
		Output:  json.RawMessage(`"abc123"`),
	}
	if err := c.Redact(Rules{}); err != nil {
		t.Fatal(err)
	}
	// abc12 is too short to be looked for elsewhere.
	if have, want := string(c.Arguments), `{"token":"<redacted 1>","password":"<redacted 2>","n":9007199254740993}`; have != want {
		t.Errorf("arguments %s\nwant %s", have, want)
	}
	if have, want := string(c.Effects[0].Args), `{"q":"<redacted 1>","r":"abc12","s":"tell <redacted 1>!"}`; have != want {
		t.Errorf("args %s\nwant %s", have, want)
	}
	if have, want := string(c.Output), `"<redacted 1>"`; have != want {
		t.Errorf("output %s, want %s", have, want)
	}
}

func TestPointersOfTheConfiguration(t *testing.T) {
	for _, tt := range []struct{ pointer, want string }{
		{"/arguments/card", `{"a":"<redacted 1>","result":{"structuredContent":{"customer":{"email":"a@b.example"}}}}`},
		{"/effects/*/result/customer/email", `{"a":"visa","result":{"structuredContent":{"customer":{"email":"<redacted 1>"}}}}`},
		{"/effects/0/result/structuredContent/customer/email", `{"a":"visa","result":{"structuredContent":{"customer":{"email":"<redacted 1>"}}}}`},
		{"/effects/1/result/customer/email", `{"a":"visa","result":{"structuredContent":{"customer":{"email":"a@b.example"}}}}`},
		{"/effects/*/result/customer", `{"a":"visa","result":{"structuredContent":{"customer":{}}}}`},
	} {
		c := &Case{Tool: "x", Arguments: json.RawMessage(`{"card":"visa"}`), Output: json.RawMessage("1"),
			Effects: []Effect{{Key: "0", Kind: "call", Name: "y", Result: json.RawMessage(`{"structuredContent":{"customer":{"email":"a@b.example"}}}`)}}}
		if err := c.Redact(Rules{Pointers: []string{tt.pointer}}); err != nil {
			t.Fatal(err)
		}
		have := `{"a":` + strings.TrimSuffix(strings.TrimPrefix(string(c.Arguments), `{"card":`), "}") + `,"result":` + string(c.Effects[0].Result) + `}`
		if have != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.pointer, have, tt.want)
		}
	}
}
