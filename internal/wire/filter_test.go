package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// resultEdit is the edit that the proxy makes: a member dropped, one changed, one added.
func resultEdit(add string) Edit {
	return Edit{
		Decide: func(key string) Decision {
			switch key {
			case "drop":
				return Drop
			case "_meta":
				return Change
			}
			return Keep
		},
		Change: func(_ string, v []byte) []byte {
			if string(v) == "{}" {
				return nil
			}
			return []byte(`"changed"`)
		},
		Close: func() []byte { return []byte(add) },
	}
}

func TestEdit(t *testing.T) {
	for _, tt := range []struct{ name, in, add, want string }{
		{"untouched", `{ "a" : [1, {"drop":2}],"b":"}\",{" }`, "", `{ "a" : [1, {"drop":2}],"b":"}\",{" }`},
		{"drop the first", `{"drop":1, "b":2}`, "", `{ "b":2}`},
		{"drop the last", `{"b":2,"drop":{"x":[]} }`, "", `{"b":2}`},
		{"drop the only", `{"drop":1}`, "", `{}`},
		{"change", `{"_meta":{"x":1} ,"b":2}`, "", `{"_meta":"changed","b":2}`},
		{"change to nothing", `{"a":1,"_meta":{}}`, "", `{"a":1}`},
		{"add", `{"a":1}`, `"z":0`, `{"a":1,"z":0}`},
		{"add to an empty object", `{}`, `"z":0`, `{"z":0}`},
		{"add after all were dropped", `{"drop":1}`, `"z":0`, `{"z":0}`},
		{"no object", `[1,2]`, `"z":0`, `[1,2]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(resultEdit(tt.add).Apply([]byte(tt.in))); got != tt.want {
				t.Errorf("Apply(%s)\n got %s\nwant %s", tt.in, got, tt.want)
			}
			r := resultEdit(tt.add).Reader(io.NopCloser(iotest.OneByteReader(strings.NewReader(tt.in))))
			if got, err := io.ReadAll(r); err != nil || string(got) != tt.want {
				t.Errorf("Reader(%s)\n got %s, %v\nwant %s", tt.in, got, err, tt.want)
			}
		})
	}
}

// FuzzEdit checks that an edit that changes nothing changes no byte, and that any other
// leaves JSON, in one piece or byte by byte.
func FuzzEdit(f *testing.F) {
	f.Add([]byte(`{"a":1,"drop":[{"_meta":2}],"_meta":{}}`))
	f.Add([]byte(` {"\u005fmeta":"x" , "b":null}`))
	f.Fuzz(func(t *testing.T, obj []byte) {
		if !Valid(obj) {
			return
		}
		same := Edit{Decide: func(string) Decision { return Keep }}
		if got := same.Apply(obj); !bytes.Equal(got, obj) {
			t.Fatalf("Apply(%q) = %q", obj, got)
		}
		whole := resultEdit(`"z":0`).Apply(obj)
		if !json.Valid(whole) {
			t.Fatalf("Apply(%q) = %q", obj, whole)
		}
		r := resultEdit(`"z":0`).Reader(io.NopCloser(iotest.OneByteReader(bytes.NewReader(obj))))
		if pieces, _ := io.ReadAll(r); !bytes.Equal(pieces, whole) {
			t.Fatalf("in pieces %q\n whole %q", pieces, whole)
		}
	})
}
