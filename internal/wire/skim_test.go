package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// values are JSON values whose ends are not obvious.
var values = []string{
	`{}`, `[]`, `""`, `0`, `-1.5e+7`, `true`, `null`, `"\""`, `"\\"`, `"\\\""`, `"a\\\\"`, `"]}"`, `"é"`, `"\u0022"`,
	`{"a":{"b":[1,"}",{"c":"\\"}]},"d":"\"]"}`, `[[[["x"]]],{"":[]}]`, `[1,2,3]`, `[ "\\" , { } ]`,
}

func TestSkimCutsLikeParse(t *testing.T) {
	for _, v := range values {
		for _, frame := range []string{
			`{"jsonrpc":"2.0","id":1,"result":` + v + `}`,
			` { "result" : ` + v + ` , "x":` + v + `, "jsonrpc":"2.0","id":"a" } `,
			`{"jsonrpc":"2.0","method":"a\/b","params":{"p":` + v + `}}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"","data":` + v + `}}`,
		} {
			got, err := Skim([]byte(frame))
			want, wantErr := Parse([]byte(frame))
			if err != nil || wantErr != nil || string(got.Append(nil)) != string(want.Append(nil)) {
				t.Errorf("Skim(%s)\n got %s, %v\nwant %s, %v", frame, got.Append(nil), err, want.Append(nil), wantErr)
			}
		}
	}
}

func TestSkimRefusesWhatIsNoMessage(t *testing.T) {
	for _, frame := range []string{
		``, ` `, `{`, `{}`, `[]`, `x`, `{"jsonrpc":"2.0","id":1,"result":{}`, `{"jsonrpc":"2.0","id":1,"result":{}}}`, `{"jsonrpc":"2.0","id":1,"result":}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, `{"jsonrpc":"2.0" "id":1}`, `{"jsonrpc":"2.0","id":1,"result":"`,
		`{"jsonrpc":"1.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":{},"result":{}}`, strings.Repeat(`[`, jsonscan.MaxDepth+2), `{"result":` + strings.Repeat(`[`, jsonscan.MaxDepth+2),
	} {
		if m, err := Skim([]byte(frame)); err == nil {
			t.Errorf("Skim(%.60s) = %+v, want an error", frame, m)
		}
	}
}

func TestSkimTakesANullErrorForNone(t *testing.T) {
	m, err := Skim([]byte(`{"jsonrpc":"2.0","id":1,"result":{},"error":null}`))
	if err != nil || !m.IsResponse() || m.Error != nil {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestSkimResultFindsTheResultBeforeItEnds(t *testing.T) {
	for frame, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":"b`:     `{"a":"b`,
		`{"x":{"result":1}, "result" : [1`:             `[1`,
		`{"jsonrpc":"2.0","id":1,"error":{"result":"b`: ``,
		`{"jsonrpc":"2.0","id":"\"result\":1`:          ``,
		`{"jsonrpc":"2.0","id":1,"result":`:            ``,
		`[{"result":1`:                                 ``,
	} {
		got := ""
		if start, ok := SkimResult([]byte(frame)); ok {
			got = frame[start:]
		}
		if got != want {
			t.Errorf("SkimResult(%s) begins %q, want %q", frame, got, want)
		}
	}
}

// FuzzSkim checks that Skim agrees with Parse on everything that Parse accepts, and
// that SkimResult is correct for each prefix of a frame.
func FuzzSkim(f *testing.F) {
	for _, v := range values {
		f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":`+v+`}`), 40)
	}
	f.Fuzz(func(t *testing.T, frame []byte, cut int) {
		got, err := Skim(frame)
		want, wantErr := Parse(frame)
		if wantErr == nil && (err != nil || string(got.Append(nil)) != string(want.Append(nil))) {
			t.Fatalf("Skim(%q)\n got %s, %v\nwant %s", frame, got.Append(nil), err, want.Append(nil))
		}
		if wantErr != nil || want.Result == nil || cut < 0 || cut >= len(frame) {
			return
		}
		if start, ok := SkimResult(frame[:cut]); ok {
			var s jsonscan.Scanner
			n, done, err := s.Scan(frame[start:cut])
			if !done && err == nil {
				var m int
				m, _, err = s.Scan(frame[cut:])
				n += m
			}
			if err != nil || string(frame[start:start+n]) != string(want.Result) || !json.Valid(frame[start:start+n]) {
				t.Fatalf("%q cut at %d: result is %q, %v", frame, cut, frame[start:start+n], err)
			}
		}
	})
}

func BenchmarkSkim(b *testing.B) {
	for name, text := range map[string]string{"plain": strings.Repeat("x", 100_000), "escaped": strings.Repeat(`\"key\":\"value\",\n`, 5_000)} {
		frame := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				if _, err := Skim(frame); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
