package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecrets(t *testing.T) {
	const text = `
backends:
  - name: remote
    url: https://example.com/api/hK3jf9sLq0ZxV8nM2bT7/mcp?api_key=from-the-url&v=2025-11-25
    headers:
      Authorization: Basic ${BASIC}
      X-Literal: a literal header
      Cookie: sid=cookie-one; other=cookie-two
      X-Pin: ${PIN}
      X-Stage: prod
  - name: child
    command: server
    env:
      GREETING: hello ${NAME}
      DATA: ${HOME}/data
      SERVICE_TOKEN: by-its-name
      SOMETHING: ghp_byItsLook1234
      DATABASE: postgres://user:by-its-place@localhost/db
      LOG_LEVEL: verbose
      API_KEY: abc
`
	env := map[string]string{"BASIC": "dXNlcjpwYXNzd29yZA==", "PIN": "1234", "NAME": "from the environment", "HOME": "/home/somebody"}
	c, err := parse("vmcp.yaml", []byte(text), func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	got := c.Secrets()
	slices.Sort(got)
	want := []string{
		"1234", "1234", "Basic dXNlcjpwYXNzd29yZA==", "a literal header", "abc", "by-its-name", "by-its-place", "cookie-one", "cookie-two",
		"dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA==", "from the environment", "from-the-url", "ghp_byItsLook1234", "hK3jf9sLq0ZxV8nM2bT7",
		"literal header", "other=cookie-two", "password", "prod", "sid=cookie-one; other=cookie-two", "user:password",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
	const short = "a secret of fewer than 6 characters is not redacted in errors and logs, where such a short string may occur by chance"
	wantWarnings := strings.Join([]string{
		`vmcp.yaml:9:14: warning: backends[0].headers.X-Pin: ` + short + " [config]",
		`vmcp.yaml:20:16: warning: backends[1].env.API_KEY: ` + short + " [config]",
	}, "\n")
	if diff := cmp.Diff(wantWarnings, c.Warnings().Error()); diff != "" {
		t.Errorf("Warnings (-want +got):\n%s", diff)
	}
}
