package wire

import (
	"encoding/base64"
	"strings"
)

const (
	sentinelOpen  = "=?base64?"
	sentinelClose = "?="
)

// EncodeHeader returns v as an HTTP header value: unchanged if it is visible ASCII, else
// in the base64 form of MCP 2026-07-28 (basic/transports, "Value encoding").
func EncodeHeader(v string) string {
	if plainHeader(v) {
		return v
	}
	return sentinelOpen + base64.StdEncoding.EncodeToString([]byte(v)) + sentinelClose
}

func plainHeader(v string) bool {
	if v != strings.Trim(v, " \t") || strings.HasPrefix(v, sentinelOpen) && strings.HasSuffix(v, sentinelClose) {
		return false
	}
	for i := 0; i < len(v); i++ {
		if c := v[i]; (c < 0x20 && c != '\t') || c > 0x7e {
			return false
		}
	}
	return true
}

// DecodeHeader undoes EncodeHeader; ok is false for a malformed base64 form.
func DecodeHeader(v string) (text string, ok bool) {
	rest, has := strings.CutPrefix(v, sentinelOpen)
	if !has || !strings.HasSuffix(rest, sentinelClose) {
		return v, true
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(rest, sentinelClose))
	return string(b), err == nil
}
