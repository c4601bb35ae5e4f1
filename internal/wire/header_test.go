package wire

import (
	"strings"
	"testing"
)

func TestHeaderValues(t *testing.T) {
	for _, tt := range []struct{ text, header string }{
		{"plain", "plain"},
		{"with space", "with space"},
		{" led by space", "=?base64?IGxlZCBieSBzcGFjZQ==?="},
		{"Zürich", "=?base64?WsO8cmljaA==?="},
		{"line\nbreak", "=?base64?bGluZQpicmVhaw==?="},
		{"=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="},
		{"", ""},
	} {
		if got := EncodeHeader(tt.text); got != tt.header {
			t.Errorf("EncodeHeader(%q) = %q, want %q", tt.text, got, tt.header)
		}
		if got, ok := DecodeHeader(tt.header); got != tt.text || !ok {
			t.Errorf("DecodeHeader(%q) = %q, %v", tt.header, got, ok)
		}
	}
	if _, ok := DecodeHeader("=?base64?%%%?="); ok {
		t.Error("DecodeHeader accepts what is no base64")
	}
}

func FuzzHeader(f *testing.F) {
	f.Add("x")
	f.Add("=?base64?eA==?=")
	f.Add("é\r\nInjected: yes")
	f.Fuzz(func(t *testing.T, text string) {
		h := EncodeHeader(text)
		if strings.ContainsAny(h, "\r\n\x00") {
			t.Fatalf("EncodeHeader(%q) = %q", text, h)
		}
		if got, ok := DecodeHeader(h); !ok || got != text {
			t.Fatalf("DecodeHeader(EncodeHeader(%q)) = %q, %v", text, got, ok)
		}
	})
}
