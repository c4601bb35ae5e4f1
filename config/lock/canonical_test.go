package lock_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/config/lock"
	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/testmode"
)

func TestCanonical(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"space", " { \"a\" : [ 1 , true , null ] ,\r\n\t\"b\":{ } } ", `{"a":[1,true,null],"b":{}}`},
		{"members by code point", "{\"\uffff\":1,\"\U00010000\":2,\"b\":3,\"a\":4,\"B\":5,\"\":6}", "{\"\":6,\"B\":5,\"a\":4,\"b\":3,\"\uffff\":1,\"\U00010000\":2}"},
		{"members by what they say", `{"a\u0062":1,"aa":2,"\u0001":3,"A":4}`, `{"\u0001":3,"A":4,"aa":2,"ab":1}`},
		{"a member twice stays twice", `{"b":1,"a":2,"b":0}`, `{"a":2,"b":1,"b":0}`},
		{"nested members", `[{"b":{"d":1,"c":2},"a":0}]`, `[{"a":0,"b":{"c":2,"d":1}}]`},
		{"escapes", `"\u0041\/\u00e9\ud83d\ude00\u000a\u0008\u001B\u0022\u005c"`, `"A/é😀\n\b\u001b\"\\"`},
		{"half a pair", `"\uD800 \uDFFF \ud800\u0041 \ud800\ud800\udc00"`, "\"\\ud800 \\udfff \\ud800A \\ud800\U00010000\""},
		{"half a pair sorts as a code point", `{"\ue000":1,"\ud800":2,"z":3}`, `{"z":3,"\ud800":2,"` + "\ue000" + `":1}`},
		{"whole numbers", `[1,1.0,1e0,10e-1,100e-2,-0,-0.0,0e5,100,1E2]`, `[1,1,1,1,1,0,0,0,100,100]`},
		{"fractions", `[0.5,5e-1,0.50,-1.250,1e-6,0.000001,1e-7,0.0000001]`, `[0.5,0.5,0.5,-1.25,0.000001,0.000001,1e-7,1e-7]`},
		{"large", `[1e21,1e20,123e30,1.5e300]`, `[1e+21,100000000000000000000,1.23e+32,1.5e+300]`},
		{"exact", `[9007199254740993,9007199254740993.0,12345678901234567890123,0.1234567890123456789012345]`, `[9007199254740993,9007199254740993,12345678901234567890123,0.1234567890123456789012345]`},
		{"no number of this world", `[1e999999999999,1E0000000000003]`, `[1e999999999999,1000]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := lock.Canonical([]byte(tt.in))
			if err != nil || string(got) != tt.want {
				t.Errorf("Canonical(%s)\n got %s, %v\nwant %s", tt.in, got, err, tt.want)
			}
			again, err := lock.Canonical(got)
			if err != nil || !bytes.Equal(again, got) {
				t.Errorf("again: %s, %v", again, err)
			}
		})
	}
}

func TestDefinition(t *testing.T) {
	got, err := lock.Definition([]byte(`{"name":"a","_meta":{"x":1},"icons":[],"inputSchema":{"icons":1,"_meta":2},"_\u006deta":3}`))
	if want := `{"inputSchema":{"_meta":2,"icons":1},"name":"a"}`; err != nil || string(got) != want {
		t.Errorf("Definition = %s, %v; want %s", got, err, want)
	}
	for _, bad := range []string{``, `[]`, `"a"`, `{`, `{"a":1}}`, "{\"a\":\"\xff\"}", `{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`} {
		if got, err := lock.Definition([]byte(bad)); err == nil {
			t.Errorf("Definition(%.20q) = %s, want an error", bad, got)
		}
	}
}

// The canonical form does not depend on the order of members and the spelling of strings and numbers.
func TestSpellingsAreOne(t *testing.T) {
	text := `{"name":"get","description":"Gets \"é\" 😀","inputSchema":{"type":"object","properties":{"id":{"minimum":0.5,"maximum":1200},"n":{"enum":[1,2]}},"required":["id"]}}`
	want, err := lock.Definition([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range testmode.Count(200, 5000) {
		other := respelled(rnd, []byte(text))
		if got, err := lock.Definition(other); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("Definition(%s)\n got %s, %v\nwant %s", other, got, err, want)
		}
	}
}

// respelled returns a JSON text with the same value.
func respelled(rnd *rand.Rand, v []byte) []byte {
	space := func() string { return []string{"", " ", "\n\t"}[rnd.IntN(3)] }
	switch v[0] {
	case '{':
		var members []string
		jsonscan.Each(v, func(k, v []byte) bool {
			key, _ := json.Marshal(string(k))
			members = append(members, space()+string(respelled(rnd, key))+space()+":"+space()+string(respelled(rnd, v)))
			return true
		})
		rnd.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return []byte("{" + strings.Join(members, ",") + space() + "}")
	case '[':
		var all []string
		jsonscan.Elements(v, func(e []byte) bool { all = append(all, space()+string(respelled(rnd, e))); return true })
		return []byte("[" + strings.Join(all, ",") + space() + "]")
	case '"':
		var b strings.Builder
		for _, r := range jsonscan.Text(v) {
			switch {
			case r > 0xffff:
				b.WriteString([]string{string(r), `\ud83d\ude00`, `\uD83D\uDE00`}[rnd.IntN(3)])
			case rnd.IntN(3) == 0 || r == '"':
				fmt.Fprintf(&b, `\u%04X`, r)
			default:
				b.WriteRune(r)
			}
		}
		return []byte(`"` + b.String() + `"`)
	}
	spellings := map[string][]string{"0.5": {"0.5", "5e-1", "0.50", "0.05E1"}, "1200": {"1200", "12e2", "1200.0", "1.2E+3"}}[string(v)]
	if spellings == nil {
		return v
	}
	return []byte(spellings[rnd.IntN(len(spellings))])
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":[1.50,-0,1e5],"a":"\ud83d\ude00\ud800"}`, `[{"\u0000":{}}]`, `1e-400`, `"\\\""`, `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := lock.Canonical(text)
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("Canonical(%q) = %q, which is not JSON", text, got)
		}
		if again, err := lock.Canonical(got); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("Canonical(%q) = %q, of which it is %q, %v", text, got, again, err)
		}
	})
}
