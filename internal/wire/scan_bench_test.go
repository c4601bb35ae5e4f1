package wire

import (
	"io"
	"strings"
	"testing"
)

// texts are values of 100 kB of the kinds that tools send.
var texts = []struct{ name, value string }{
	{"plain", `[{"text":"` + strings.Repeat("words of a long text ", 4800) + `"}]`},
	{"escaped", `[{"text":"` + strings.Repeat(`a line with \"quotes\"\n`, 4350) + `"}]`},
	{"rows", `[` + strings.Repeat(`{"id":12345,"name":"item","price":17.5,"active":true},`, 1850) + `0]`},
}

func BenchmarkScan(b *testing.B) {
	for _, tt := range texts {
		b.Run(tt.name, func(b *testing.B) {
			value := []byte(tt.value)
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				var s ValueScanner
				if n, done, err := s.Scan(value); n != len(value) || !done || err != nil {
					b.Fatal(n, done, err)
				}
			}
		})
	}
}

func BenchmarkEdit(b *testing.B) {
	for _, tt := range texts {
		b.Run(tt.name, func(b *testing.B) {
			obj := []byte(`{"content":` + tt.value + `}`)
			b.SetBytes(int64(len(obj)))
			b.ReportAllocs()
			for b.Loop() {
				if n, ended, err := resultEdit("").Editor().Write(io.Discard, obj); n != len(obj) || !ended || err != nil {
					b.Fatal(n, ended, err)
				}
			}
		})
	}
}
