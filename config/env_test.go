package config

import (
	"slices"
	"strings"
	"testing"
)

// TestVariables are expanded in every text of a backend's connection. Their defaults are literal.
func TestVariables(t *testing.T) {
	env := map[string]string{"HOST": "mcp.example.com", "EMPTY": "", "PROGRAM": "npx", "ODD": "${HOST}", "FOLDER": "testdata"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	const text = `
backends:
  - name: remote
    url: https://${HOST}:${PORT:-8443}/mcp
    headers: {X-A: "${EMPTY:-empty}", X-B: "${ODD}", X-C: "$${HOST} ${MISSING:-}", X-D: "${MISSING:-a b:-c}"}
  - name: child
    command: ${PROGRAM}
    args: ["${EMPTY}", "-${NONE:-$x}", "$HOST", "$${HOST}"]
    cwd: ${FOLDER}
`
	c, err := parse("vmcp.yaml", []byte(text), lookup)
	if err != nil {
		t.Fatal(err)
	}
	remote, child := c.Backends[0], c.Backends[1]
	have := []string{remote.URL, remote.Headers["X-A"], remote.Headers["X-B"], remote.Headers["X-C"], remote.Headers["X-D"], child.Command, strings.Join(child.Args, "|")}
	want := []string{"https://mcp.example.com:8443/mcp", "empty", "${HOST}", "${HOST} ", "a b:-c", "npx", "|-$x|$HOST|${HOST}"}
	if !slices.Equal(have, want) {
		t.Errorf("have %q\nwant %q", have, want)
	}
	if !strings.HasSuffix(child.Cwd, "/testdata") {
		t.Errorf("cwd is %q", child.Cwd)
	}
	if hidden := c.Secrets(); !slices.Contains(hidden, "mcp.example.com") || !slices.Contains(hidden, "testdata") {
		t.Errorf("what came from the environment is not hidden: %q", hidden)
	}
	for place, text := range map[string]string{
		"backends[0].args[1]": `{name: a, command: x, args: ["-", "${NONE}"]}`,
		"backends[0].args[0]": `{name: a, command: x, args: ["${A:-${B}}"]}`,
		"backends[0].command": `{name: a, command: "${"}`,
		"backends[0].cwd":     `{name: a, command: x, cwd: "${NONE}"}`,
		"backends[0].url":     `{name: a, url: "http://${NONE}/mcp"}`,
	} {
		_, err := parse("vmcp.yaml", []byte("backends: ["+text+"]"), lookup)
		if err == nil || !strings.Contains(err.Error(), place+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s gives %v, want one problem at %s", text, err, place)
		}
	}
}
