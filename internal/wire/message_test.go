package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

func TestParseCutsAFrame(t *testing.T) {
	for _, tt := range []struct{ name, frame, id, method, params, result string }{
		{"request", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","n":9007199254740993}}`, "7", "tools/call", `{"name":"x","n":9007199254740993}`, ""},
		{"any order and space", " {\"params\" : { } ,\n\"method\":\"ping\",\"id\":\"a\" , \"jsonrpc\":\"2.0\"} ", `"a"`, "ping", "{ }", ""},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", "notifications/initialized", "", ""},
		{"response", `{"jsonrpc":"2.0","id":1,"result":{"a":1.0}}`, "1", "", "", `{"a":1.0}`},
		{"escaped key", `{"jsonrpc":"2.0","\u0069d":1,"method":"ping"}`, "1", "ping", "", ""},
		{"unknown members", `{"jsonrpc":"2.0","id":1,"method":"ping","extra":[1,{"id":2}]}`, "1", "ping", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse([]byte(tt.frame))
			if err != nil {
				t.Fatalf("Parse(%s): %v", tt.frame, err)
			}
			if string(m.ID) != tt.id || m.Method != tt.method || string(m.Params) != tt.params || string(m.Result) != tt.result {
				t.Errorf("Parse(%s) = %s %q %s %s", tt.frame, m.ID, m.Method, m.Params, m.Result)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat("[", jsonscan.MaxDepth+1) + strings.Repeat("]", jsonscan.MaxDepth+1)
	for _, tt := range []struct {
		name, frame string
		code        int
		want        string
	}{
		{"nothing", ``, ParseError, "unexpected end at byte 0"},
		{"cut off", `{"jsonrpc":"2.0"`, ParseError, "unexpected end"},
		{"two values", `{} {}`, ParseError, `unexpected '{' at byte 3`},
		{"a raw line break in a string", "{\"a\":\"x\ny\"}", ParseError, "unexpected '\\n'"},
		{"a leading zero", `{"id":01}`, ParseError, "unexpected '1'"},
		{"too deep", deep, ParseError, "nested deeper than 512"},
		{"an array", `[1]`, InvalidRequest, "want a JSON-RPC object, have an array"},
		{"no version", `{"id":1,"method":"ping"}`, InvalidRequest, `jsonrpc: want "2.0"`},
		{"duplicate method", `{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, InvalidRequest, `member "method" appears twice`},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"a"}`, InvalidRequest, "have null"},
		{"id of another type", `{"jsonrpc":"2.0","id":{},"method":"a"}`, InvalidRequest, "id: want a string or a number"},
		{"params of another type", `{"jsonrpc":"2.0","id":1,"method":"a","params":"x"}`, InvalidRequest, "params: want an object, have a string"},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, InvalidRequest, "not both"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.frame))
			var e *Error
			if !errors.As(err, &e) || e.Code != tt.code || !strings.Contains(e.Message, tt.want) {
				t.Errorf("Parse = %v, want code %d and %q", err, tt.code, tt.want)
			}
		})
	}
}

func TestAppendRoundTrip(t *testing.T) {
	for _, m := range []Message{
		{ID: json.RawMessage(`"x"`), Method: "a/b", Params: json.RawMessage(`{"a":1}`)},
		{Method: "notifications/x"},
		{ID: json.RawMessage(`3`), Result: json.RawMessage(`{}`)},
		{ID: json.RawMessage(`3`), Error: json.RawMessage(`{"code":-1,"message":"no"}`)},
	} {
		got, err := Parse(m.Append(nil))
		if err != nil || string(got.ID) != string(m.ID) || got.Method != m.Method || string(got.Params) != string(m.Params) ||
			string(got.Result) != string(m.Result) || string(got.Error) != string(m.Error) {
			t.Errorf("Parse(%s) = %+v, %v", m.Append(nil), got, err)
		}
	}
}

// FuzzParse compares the frame parser with encoding/json: it accepts only valid JSON, and
// edits of accepted frames keep it valid.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[1,2,{"b":"\u00e9\\"}]}}`, `{"a":1e-7}`, `[]`, `{"jsonrpc":"2.0","method":"m"}`, "{\"a\":\"\x01\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := Parse(frame)
		var e *Error
		syntaxOK := !errors.As(err, &e) || e.Code != ParseError
		valid := json.Valid(frame) && utf8.Valid(frame) // encoding/json takes any bytes in a string
		if syntaxOK && !valid {
			t.Fatalf("Parse accepts %q, which is no JSON", frame)
		}
		if !syntaxOK && valid && !strings.Contains(err.Error(), "deeper") {
			t.Fatalf("Parse refuses %q: %v", frame, err)
		}
		if err == nil && len(m.Params) > 0 && m.Params[0] == '{' {
			set := jsonscan.Set(m.Params, "k", []byte(`"v"`))
			if !json.Valid(set) || jsonscan.GetString(set, "k") != "v" {
				t.Fatalf("jsonscan.Set(%s) = %s", m.Params, set)
			}
			if del := jsonscan.Delete(set, func(k string) bool { return k == "k" }); !json.Valid(del) || jsonscan.Get(del, "k") != nil {
				t.Fatalf("jsonscan.Delete(%s) = %s", set, del)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	frame := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("x", 100) + `"}}}`)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		Parse(frame)
	}
}
