package jsonscan

import (
	"encoding/json"
	"testing"
)

// TestReadable: the characters that are special in HTML are not escaped, neither in strings nor in json.RawMessage
// values; every other escape is kept, and the value is the same.
func TestReadable(t *testing.T) {
	for raw, want := range map[string]string{
		`"a<b>&c"`:                     `"a<b>&c"`,
		`"a\u003cb\u003E\u0026c"`:      `"a<b>&c"`,
		`"\\u003c \\\u003c \\\\u003c"`: `"\\u003c \\< \\\\u003c"`,
		`"\"\u0000\n\u2028\u003d"`:     `"\"\u0000\n\u2028\u003d"`,
		`{"\u003ck\u003e":"\\"}`:       `{"<k>":"\\"}`,
		`"\u0026\\"`:                   `"&\\"`,
	} {
		got, err := Readable(struct {
			Text string
			Raw  json.RawMessage
		}{"<&>", json.RawMessage(raw)})
		if err != nil || string(got) != `{"Text":"<&>","Raw":`+want+`}` {
			t.Errorf("Readable of %s\n got %s, %v\nwant Raw %s", raw, got, err, want)
		}
		var before, after struct{ Raw any }
		json.Unmarshal([]byte(`{"Raw":`+raw+`}`), &before)
		if json.Unmarshal(got, &after) != nil || string(mustMarshal(before)) != string(mustMarshal(after)) {
			t.Errorf("Readable of %s is another value: %s", raw, got)
		}
	}
	if _, err := Readable(json.RawMessage(`{`)); err == nil {
		t.Error("what is no JSON has no error")
	}
}

func mustMarshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
