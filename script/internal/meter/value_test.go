package meter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/vmcp-dev/vmcp/script/internal/meter"
	"github.com/vmcp-dev/vmcp/script/internal/metertest"
)

func TestDecode(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"order", `{"b":1,"a":{"z":[],"y":null}}`, `{"b": 1, "a": {"z": [], "y": None}}`},
		{"words", ` [true , false, null] `, `[True, False, None]`},
		{"ints", `[0,-0,-1,2147483648,9007199254740993,-9223372036854775808,18446744073709551616]`,
			`[0, 0, -1, 2147483648, 9007199254740993, -9223372036854775808, 18446744073709551616]`},
		{"int of 40 digits", `1234567890123456789012345678901234567890`, `1234567890123456789012345678901234567890`},
		{"floats", `[1.0,-0.5,1e3,1E-7,0.1]`, `[1.0, -0.5, 1000.0, 1e-07, 0.1]`},
		{"tiny float", `1e-999`, `0.0`},
		{"escapes", `"\"\\\/\b\f\n\r\té😀"`, `"\"\\/\b\f\n\r\té😀"`},
		{"bytes that are not UTF-8", "\"a\xffb\"", `"a�b"`},
		{"lone surrogates", `"\ud83d \ude00 \ud83dx"`, `"� � �x"`},
		{"a key twice", `{"a":1,"b":2,"a":3}`, `{"a": 3, "b": 2}`},
		{"eight keys", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1}`, `{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1, "h": 1}`},

		{"nothing", ``, `json: want a value, have the end of the text`},
		{"text after", `1 2`, `json: offset 2: want the end, have "2"`},
		{"no value", `[1,]`, `json: offset 3: want a value, have "]"`},
		{"no comma", `[1 2]`, `json: offset 3: want "," or "]", have "2"`},
		{"key without quotes", `{a:1}`, `json: offset 1: want a key in quotes, have "a"`},
		{"no colon", `{"a" 1}`, `json: offset 5: want ":", have "1"`},
		{"open string", `"abc`, `json: want the end of a string, have the end of the text`},
		{"control character", "\"a\nb\"", `json: offset 2: want a character of a string, have "\n"`},
		{"no such escape", `"\x"`, `json: offset 1: want an escape such as \n or \u00e9, have "\\"`},
		{"leading zero", `01`, `json: offset 1: want the end, have "1"`},
		{"no digit", `-`, `json: want a digit, have the end of the text`},
		{"no number", `NaN`, `json: offset 0: want a value, have "N"`},
		{"huge float", `1e999`, `json: offset 0: number 1e999 is too large for a float`},
		{"word", `nul`, `json: offset 0: want a value, have "n"`},
		{"too deep", `[[[[[[]]]]]]`, `json: offset 5: nested more than 5 deep`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := meter.Decode(nil, []byte(tt.in), 5)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = v.String()
			}
			if got != tt.want {
				t.Errorf("Decode(%q)\n got %s\nwant %s", tt.in, got, tt.want)
			}
		})
	}
}

func TestDecodeRefusesLongNumbers(t *testing.T) {
	if _, err := meter.Decode(nil, bytes.Repeat([]byte("9"), 4096), 5); err != nil {
		t.Errorf("Decode of 4096 digits: %v", err)
	}
	_, err := meter.Decode(nil, bytes.Repeat([]byte("9"), 4097), 5)
	want := "json: offset 0: number of 4097 digits, at most 4096 can be read"
	if err == nil || err.Error() != want {
		t.Errorf("Decode of 4097 digits: got %v, want %s", err, want)
	}
}

// The conversion of a text is charged before it is complete.
func TestDecodeCharges(t *testing.T) {
	text := []byte("[" + strings.Repeat("{},", 1_000_000) + "{}]")
	b := meter.New(meter.Options{Ledger: metertest.NewLedger(meter.Amount{Memory: 8 << 20})})
	_, err := meter.Decode(b, text, 5)
	var limit *meter.LimitError
	if !errors.As(err, &limit) || limit.Limit != "memory" {
		t.Errorf("Decode of %d bytes with 8MB: got %v, want the limit on memory", len(text), err)
	}
}

func TestEncode(t *testing.T) {
	list := starlark.NewList(nil)
	list.Append(starlark.MakeInt(1))
	loop := new(starlark.Dict)
	loop.SetKey(starlark.String("x"), list)
	list.Append(loop)
	dict := func(k, v starlark.Value) *starlark.Dict {
		d := new(starlark.Dict)
		d.SetKey(k, v)
		return d
	}
	set := new(starlark.Set)
	set.Insert(starlark.MakeInt(3))
	large, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	for _, tt := range []struct {
		name string
		in   starlark.Value
		want string
	}{
		{"words", starlark.Tuple{starlark.None, starlark.True, starlark.False}, `[null,true,false]`},
		{"ints", starlark.Tuple{starlark.MakeInt(-1), starlark.MakeInt64(math.MinInt64), starlark.MakeBigInt(large)}, `[-1,-9223372036854775808,123456789012345678901234567890]`},
		{"floats", starlark.Tuple{starlark.Float(1), starlark.Float(0.1), starlark.Float(1e6), starlark.Float(1e21), starlark.Float(1e-7), starlark.Float(0)}, `[1.0,0.1,1000000.0,1e+21,1e-07,0.0]`},
		{"string", starlark.String("\"\\\n\r\t\x01é\xff/<"), "\"\\\"\\\\\\n\\r\\t\\u0001é\uFFFD/<\""},
		{"struct", starlarkstruct.FromStringDict(starlarkstruct.Default, starlark.StringDict{"b": starlark.None, "a": starlark.MakeInt(1)}), `{"a":1,"b":null}`},
		{"set", set, `[3]`},

		{"cycle", loop, `$.x[1]: dict contains itself`},
		{"too deep", deepList(7), `$[0][0][0][0][0]: nested more than 5 deep`},
		{"key", starlark.Tuple{dict(starlark.MakeInt(1), starlark.None)}, `$[0]: key of type int; keys of JSON objects are strings`},
		{"bytes", dict(starlark.String("a b"), starlark.Bytes("x")), `$["a b"]: bytes cannot be written as JSON; want a string`},
		{"function", dict(starlark.String("f"), starlark.Universe["len"]), `$.f: builtin_function_or_method cannot be written as JSON`},
		{"nan", dict(starlark.String("x"), starlark.Float(math.NaN())), `$.x: float NaN cannot be written as JSON`},
		{"infinity", starlark.Float(math.Inf(-1)), `$: float -Inf cannot be written as JSON`},
		{"too long", starlark.String(strings.Repeat("x", 101)), `JSON text of more than 100B`},
		{"too long in parts", starlark.Tuple{starlark.String(strings.Repeat("x", 60)), starlark.String(strings.Repeat("x", 60))}, `JSON text of more than 100B`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, err := meter.Encode(tt.in, 100, 5)
			got := string(data)
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("Encode:\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func deepList(n int) starlark.Value {
	v := starlark.NewList(nil)
	for range n {
		v = starlark.NewList([]starlark.Value{v})
	}
	return v
}

// A list that shares its parts unfolds to any size; the limit on bytes ends the encoding.
func TestEncodeOfSharedPartsEnds(t *testing.T) {
	v := starlark.NewList(nil)
	for range 90 {
		v = starlark.NewList([]starlark.Value{v, v})
	}
	if _, err := meter.Encode(v, 1<<20, 100); err == nil || err.Error() != "JSON text of more than 1MB" {
		t.Errorf("Encode of a shared list: %v", err)
	}
}

// Encode writes what Decode reads, to the last digit.
func TestLongestNumbersGoBothWays(t *testing.T) {
	for _, text := range []string{strings.Repeat("9", 4096), "1" + strings.Repeat("0", 4095), "-" + strings.Repeat("6", 4095)} {
		v, err := meter.Decode(nil, []byte(text), 5)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := meter.Encode(v, 1<<20, 5); err != nil || string(out) != text {
			t.Errorf("%.9s... of %d bytes came back as %.9s... of %d, %v", text, len(text), out, len(out), err)
		}
		more := v.(starlark.Int).Mul(starlark.MakeInt(10))
		if out, err := meter.Encode(more, 1<<20, 5); err == nil || !strings.Contains(err.Error(), "at most 4096 can be written") {
			t.Errorf("ten times that is written as %d bytes, %v", len(out), err)
		}
	}
}

// FuzzDecode accepts what encoding/json accepts, and its values are encoded unchanged.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.5,-3e7,"x\u00e9\ud83d\ude00",true,null,{}],"a":"twice"}`, `[]`, `"\ud800"`, "\"\xff\"", ` 1 `, `-0`, `1e400`, `{"":0}`,
		`12345678901234567890123`, `[[[[1]]]]`, `{"a":}`, `"\u12"`, `1.`, `.5`, `tru`, `[1,,2]`, `0.1e+5`, "\"\\", `{"k":"` + strings.Repeat("v", 40) + `"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := meter.Decode(nil, data, 1000)
		if valid := json.Valid(data); valid != (err == nil) && !meantToDiffer(err) {
			t.Fatalf("Decode(%q): %v, json.Valid says %v", data, err, valid)
		}
		if err != nil {
			return
		}
		out, err := meter.Encode(v, math.MaxInt64, 1000)
		if err != nil {
			t.Fatalf("Encode of value.Decode(%q): %v", data, err)
		}
		again, err := meter.Decode(nil, out, 1000)
		if err != nil {
			t.Fatalf("Decode(%q) of Encode: %v", out, err)
		}
		if v.String() != again.String() {
			t.Fatalf("%q came back as %s, then as %s", data, v, again)
		}
		sameAsEncodingJSON(t, data, v)
	})
}

func meantToDiffer(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "nested more than") ||
		strings.Contains(err.Error(), "too large for a float") || strings.Contains(err.Error(), "digits, at most"))
}

func sameAsEncodingJSON(t *testing.T, data []byte, v starlark.Value) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var want any
	if err := dec.Decode(&want); err != nil {
		return
	}
	if got, want := valuePlain(v), plainJSON(want); got != want {
		t.Fatalf("Decode(%q)\n got %s\nwant %s", data, got, want)
	}
}

// valuePlain writes a value without the order of its keys.
func valuePlain(v starlark.Value) string {
	switch v := v.(type) {
	case *starlark.List:
		var b strings.Builder
		for e := range v.Elements() {
			b.WriteString(valuePlain(e) + ",")
		}
		return "[" + b.String() + "]"
	case *starlark.Dict:
		m := map[string]string{}
		for k, e := range v.Entries() {
			m[string(k.(starlark.String))] = valuePlain(e)
		}
		return sortedMembers(m)
	case starlark.String:
		return fmt.Sprintf("%q", string(v))
	case starlark.Int:
		return v.String()
	case starlark.Float:
		return fmt.Sprint(float64(v))
	}
	return v.String()
}

func sortedMembers(m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%q:%s,", k, m[k])
	}
	return "{" + b.String() + "}"
}

func plainJSON(v any) string {
	switch v := v.(type) {
	case []any:
		var b strings.Builder
		for _, e := range v {
			b.WriteString(plainJSON(e) + ",")
		}
		return "[" + b.String() + "]"
	case map[string]any:
		m := map[string]string{}
		for k, e := range v {
			m[k] = plainJSON(e)
		}
		return sortedMembers(m)
	case string:
		return fmt.Sprintf("%q", v)
	case json.Number:
		if i, ok := new(big.Int).SetString(v.String(), 10); ok {
			return i.String()
		}
		f, _ := v.Float64()
		return fmt.Sprint(f)
	case bool:
		if v {
			return "True"
		}
		return "False"
	}
	return "None"
}

var payloadSizes = []struct {
	name string
	size int
}{{"1kB", 1000}, {"100kB", 100_000}, {"10MB", 10_000_000}}

func BenchmarkDecode(b *testing.B) {
	for _, p := range payloadSizes {
		data := metertest.Payload(p.size)
		b.Run(p.name+"/straight", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := meter.Decode(nil, data, 100); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(p.name+"/throughAny", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				var v any
				dec := json.NewDecoder(bytes.NewReader(data))
				dec.UseNumber()
				if err := dec.Decode(&v); err != nil {
					b.Fatal(err)
				}
				fromAny(v)
			}
		})
	}
}

// fromAny is the conversion that Decode saves.
func fromAny(v any) starlark.Value {
	switch v := v.(type) {
	case []any:
		elems := make([]starlark.Value, len(v))
		for i, e := range v {
			elems[i] = fromAny(e)
		}
		return starlark.NewList(elems)
	case map[string]any:
		d := starlark.NewDict(len(v))
		for k, e := range v {
			d.SetKey(starlark.String(k), fromAny(e))
		}
		return d
	case string:
		return starlark.String(v)
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return starlark.MakeInt64(i)
		}
		f, _ := v.Float64()
		return starlark.Float(f)
	case bool:
		return starlark.Bool(v)
	}
	return starlark.None
}

func toAny(v starlark.Value) any {
	switch v := v.(type) {
	case *starlark.List:
		out := make([]any, 0, v.Len())
		for e := range v.Elements() {
			out = append(out, toAny(e))
		}
		return out
	case *starlark.Dict:
		out := make(map[string]any, v.Len())
		for k, e := range v.Entries() {
			out[string(k.(starlark.String))] = toAny(e)
		}
		return out
	case starlark.String:
		return string(v)
	case starlark.Int:
		i, _ := v.Int64()
		return i
	case starlark.Float:
		return float64(v)
	case starlark.Bool:
		return bool(v)
	}
	return nil
}

func BenchmarkEncode(b *testing.B) {
	for _, p := range payloadSizes {
		data := metertest.Payload(p.size)
		v, err := meter.Decode(nil, data, 100)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(p.name+"/straight", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := meter.Encode(v, math.MaxInt64, 100); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(p.name+"/throughAny", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := json.Marshal(toAny(v)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
