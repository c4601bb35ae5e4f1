package jsonscan

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSpliceKeepsEveryOtherByte(t *testing.T) {
	const obj = `{ "name" : "a.b" ,"n":1.0,"big":9007199254740993, "_meta":{"x":"\u00e9"}}`
	for _, tt := range []struct{ name, got, want string }{
		{"set", string(Set([]byte(obj), "name", []byte(`"b"`))), `{ "name" : "b" ,"n":1.0,"big":9007199254740993, "_meta":{"x":"\u00e9"}}`},
		{"add", string(Set([]byte(`{"a":1 }`), "b", []byte(`2`))), `{"a":1 ,"b":2}`},
		{"add to nothing", string(Set(nil, "b", []byte(`2`))), `{"b":2}`},
		{"add to an empty object", string(Set([]byte(`{ }`), "b", []byte(`2`))), `{ "b":2}`},
		{"delete", string(Delete([]byte(obj), func(k string) bool { return k == "n" || k == "name" })), `{"big":9007199254740993,"_meta":{"x":"\u00e9"}}`},
		{"delete nothing", string(Delete([]byte(obj), func(string) bool { return false })), obj},
		{"get", string(Get([]byte(obj), "big")), "9007199254740993"},
		{"get the last of duplicates", string(Get([]byte(`{"a":1,"a":2}`), "a")), "2"},
		{"get by path", string(GetPath([]byte(obj), "_meta", "x")), `"\u00e9"`},
		{"text", GetString([]byte(`{"a":"\u00e9"}`), "a"), "é"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestMap(t *testing.T) {
	for _, tt := range []struct{ obj, want string }{
		{`{"a":1,"b":2}`, `{"a":1,"b":2}`},
		{`{ "a" : 1 , "x":2 }`, `{ "a" : 1}`},
		{`{"x":1,"b":2,"x":3,"c":4}`, `{"b":2,"c":4}`},
		{`{"x":1}`, `{}`},
		{`{ "y" : 1,"b":2}`, `{"y" : true,"b":2}`},
		{`{"b":2, "y":1, "y":1}`, `{"b":2,"y":true,"y":true}`},
		{`{}`, `{}`},
		{`7`, `7`},
	} {
		got := Map([]byte(tt.obj), func(key string, v json.RawMessage) json.RawMessage {
			switch key {
			case "x":
				return nil
			case "y":
				return json.RawMessage("true")
			}
			return v
		})
		if string(got) != tt.want {
			t.Errorf("Map(%s) = %s, want %s", tt.obj, got, tt.want)
		}
	}
}

func BenchmarkSpliceName(b *testing.B) {
	params := []byte(`{"name":"backend_echo","arguments":{"text":"` + strings.Repeat("x", 100) + `"}}`)
	b.ReportAllocs()
	for b.Loop() {
		Set(params, "name", []byte(`"echo"`))
	}
}
