package jsonscan

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
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

// inPieces edits a value byte by byte.
func inPieces(e Edit, value []byte) ([]byte, error) {
	var out bytes.Buffer
	editor := e.Editor()
	for i := range value {
		n, ended, err := editor.Write(&out, value[i:i+1])
		if err != nil || ended {
			return out.Bytes(), err
		}
		if n != 1 {
			return nil, io.ErrShortWrite
		}
	}
	return out.Bytes(), nil
}

// The zero Edit only finds the end of a value, whatever its kind and however it is cut.
func TestEditorFindsTheEnd(t *testing.T) {
	long := strings.Repeat(`text with \"quotes\", \\\\ and [brackets}] `, 40)
	for _, value := range []string{`{}`, `[1,{"a":"]"}]`, `"a \\"`, `"` + long + `"`, `{"a":"` + long + `","b":[["` + long + `"]]}`} {
		all := value + `,"id":"}]"}`
		for size := 1; size <= len(all); size++ {
			var out bytes.Buffer
			editor, taken, ended := Edit{}.Editor(), 0, false
			for !ended && taken < len(all) {
				n, end, err := editor.Write(&out, []byte(all[taken:min(taken+size, len(all))]))
				if err != nil {
					t.Fatal(err)
				}
				taken, ended = taken+n, end
			}
			if out.String() != value || !ended {
				t.Fatalf("pieces of %d: got %q, ended %t, want %q", size, &out, ended, value)
			}
		}
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
			if got, err := inPieces(resultEdit(tt.add), []byte(tt.in)); err != nil || string(got) != tt.want {
				t.Errorf("Editor in pieces of %s\n got %s, %v\nwant %s", tt.in, got, err, tt.want)
			}
		})
	}
}

// counter counts writes.
type counter struct {
	bytes.Buffer
	writes int
}

func (c *counter) Write(p []byte) (int, error) {
	c.writes++
	return c.Buffer.Write(p)
}

func TestWhatIsNotChangedPassesInOneWrite(t *testing.T) {
	value := ` { "a" : [1, {"drop":2}], "b" : "x" }`
	for cut := 1; cut < len(value); cut++ {
		var out counter
		editor := resultEdit("").Editor()
		for i, piece := range []string{value[:cut], value[cut:]} {
			before := out.writes
			if _, _, err := editor.Write(&out, []byte(piece + " ignored")[:len(piece)]); err != nil {
				t.Fatal(err)
			}
			if n := out.writes - before; n > 1+i { // a gap that was cut is a write of its own
				t.Errorf("cut at %d, piece %d takes %d writes", cut, i, n)
			}
		}
		if out.String() != value {
			t.Errorf("cut at %d: got %q", cut, &out)
		}
	}
}

// An object in memory is edited with values and white space of any size.
func TestSizeHidesNothing(t *testing.T) {
	wide := strings.Repeat(" ", 2*maxGap)
	got := resultEdit("").Apply([]byte(`{"a":1,` + wide + `"drop":2,"` + wide + `":3,"_meta":["` + wide + `"]}`))
	if want := `{"a":1,"` + wide + `":3,"_meta":"changed"}`; string(got) != want {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
}

func TestGapIsBounded(t *testing.T) {
	editor := resultEdit("").Editor()
	space := []byte(strings.Repeat(" ", 1000))
	_, _, err := editor.Write(io.Discard, []byte(`{"a":1,`))
	for i := 0; i < maxGap/len(space)+1 && err == nil; i++ {
		_, _, err = editor.Write(io.Discard, space)
	}
	if err == nil {
		t.Errorf("%d bytes of space between two members are kept", maxGap)
	}
}

// FuzzEdit checks that an edit that changes nothing changes no byte, and that any other
// leaves JSON, in one piece or byte by byte.
// A gap that comes byte by byte is not copied anew with each byte.
func TestGapIsKeptOnce(t *testing.T) {
	value := []byte(`{"a":1,` + strings.Repeat(" ", maxGap/2) + `"b":2}`)
	allocs := testing.AllocsPerRun(1, func() {
		if out, err := inPieces(resultEdit(""), value); err != nil || !bytes.Equal(out, value) {
			t.Errorf("%d bytes of %d, %v", len(out), len(value), err)
		}
	})
	if allocs > maxGap/64 {
		t.Errorf("%v allocations for %d bytes", allocs, len(value))
	}
}

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
		pieces, _ := inPieces(resultEdit(`"z":0`), bytes.TrimSpace(obj))
		if !bytes.Equal(pieces, bytes.TrimSpace(whole)) {
			t.Fatalf("in pieces %q\n whole %q", pieces, whole)
		}
	})
}
