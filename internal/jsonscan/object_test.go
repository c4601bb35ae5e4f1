package jsonscan_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

func TestObject(t *testing.T) {
	for _, tt := range []struct {
		name string
		got  json.RawMessage
		want string
	}{
		{"nothing", new(jsonscan.Object).JSON(), `{}`},
		{"what has no bytes is left out", new(jsonscan.Object).Raw("a", nil).Text("b", "").JSON(), `{"b":""}`},
		{"all kinds", new(jsonscan.Object).Int("n", -7).Bool("b", true).Raw("r", []byte(`[1]`)).Text("t", "a\"\n").JSON(), `{"n":-7,"b":true,"r":[1],"t":"a\"\n"}`},
		{"a key with a quote", new(jsonscan.Object).Bool(`"`, false).JSON(), `{"\"":false}`},
		{"no elements", jsonscan.Array(), `[]`},
		{"elements", jsonscan.Array([]byte("1"), []byte(`"x"`)), `[1,"x"]`},
	} {
		if string(tt.got) != tt.want || !json.Valid(tt.got) {
			t.Errorf("%s\n got %s\nwant %s", tt.name, tt.got, tt.want)
		}
	}
}

func ExampleObject() {
	params := new(jsonscan.Object).Text("uri", "file:///a").Raw("_meta", []byte(`{"progressToken":7}`)).JSON()
	fmt.Println(string(params))
	// Output: {"uri":"file:///a","_meta":{"progressToken":7}}
}

func ExampleSet() {
	fmt.Println(string(jsonscan.Set([]byte(`{ "n": 9007199254740993, "name": "a" }`), "name", []byte(`"b"`))))
	// Output: { "n": 9007199254740993, "name": "b" }
}
