package cases

import "testing"

// FuzzParse: reading any file ends with a case or a problem, and a case is decoded again from its encoding, with its
// secrets replaced.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version": 1, "tool": "refund", "arguments": {"token": "abcdefgh"}, "effects": [{"key": "0", "kind": "call", "name": "x", "args": {"password": 1}, "result": {"content": [{"type": "text", "text": "{\"token\":\"abcdefgh\"}"}]}}, {"key": "1.b0.0", "kind": "elicit", "args": {"requestedSchema": {"properties": {"a": {"writeOnly": true}}}}, "result": {"content": {"a": [1]}}}], "order": ["0"], "output": "abcdefgh"}`))
	f.Add([]byte(`{"version": 1, "tool": "\u0000", "arguments": {}, "failure": {"kind": "", "message": "\ud800"}, "effects": null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("c.json", data)
		if err != nil {
			return
		}
		if err := c.Redact(Rules{Pointers: []string{"/effects/*/result/*", "/output"}}); err != nil {
			t.Fatal(err)
		}
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("c.json", text); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	})
}
