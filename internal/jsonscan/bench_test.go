package jsonscan

import (
	"bytes"
	"fmt"
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
				var s Scanner
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

func BenchmarkValid(b *testing.B) {
	for _, tt := range texts {
		for _, size := range []int{1 << 10, 10 << 10, 64 << 10} {
			b.Run(fmt.Sprint(tt.name, "/", size>>10, "kB"), func(b *testing.B) {
				value := []byte(tt.value)
				var parts [][]byte
				n := 0
				Elements(value, func(v []byte) bool { parts = append(parts, v); n += len(v) + 1; return n < size })
				value = append(append([]byte{'['}, bytes.Join(parts, []byte{','})...), ']')
				if len(parts) == 1 {
					value = []byte(`[{"text":"` + tt.value[len(`[{"text":"`):size] + ` "}]`)
				}
				b.SetBytes(int64(len(value)))
				for b.Loop() {
					if !Valid(value) {
						b.Fatal("not valid")
					}
				}
			})
		}
	}
}
