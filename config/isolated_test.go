package config

import (
	"strings"
	"testing"
)

// TestIsolatedElsewhere: programs without workers refuse scripts that need them, with the position.
func TestIsolatedElsewhere(t *testing.T) {
	const text = `scriptedTools:
  - name: one
    description: Says one.
    isolated: true
    script: "def run(params): return 1"
`
	defer func(was string) { isolatedOn = was }(isolatedOn)
	isolatedOn = "another system"
	_, err := parse("vmcp.yaml", []byte(text), testEnv)
	if want := "vmcp.yaml:4:15: error: scriptedTools[0].isolated: scripts can be isolated on Linux only"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("parse = %v, want %s", err, want)
	}
}
