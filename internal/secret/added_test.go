package secret

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Secrets that are added at run time are hidden in all their forms, in addition to
// those of the configuration.
func TestAddedSecretsAreHidden(t *testing.T) {
	r := &Redactor{}
	if !r.none() {
		t.Error("a redactor without secrets has some")
	}
	r.Add("fetched/t0ken+1", "short")
	r.Use([]string{"configured-secret"})
	r.Add("eyJhbGciOi.abc.def", "eyJhbGciOi.abc.defghi")
	for in, want := range map[string]string{
		"a configured-secret b":                    "a *** b",
		"Bearer fetched/t0ken+1!":                  "Bearer ***!",
		"q=fetched%2Ft0ken%2B1&":                   "q=***&",
		"eyJhbGciOi.abc.defghi eyJhbGciOi.abc.def": "*** ***",
		"short":                         "short",
		`{"t":"fetched\/t0ken\u002b1"}`: `{"t":"***"}`,
		"x" + base64.StdEncoding.EncodeToString([]byte("u:fetched/t0ken+1")): "",
	} {
		got := r.Text(in)
		if want != "" && got != want || want == "" && !strings.Contains(got, Mask) {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
		if got := string(r.JSON([]byte(`"` + strings.ReplaceAll(strings.ReplaceAll(in, `\`, `\\`), `"`, `\"`) + `"`))); in != "short" && !strings.Contains(got, Mask) {
			t.Errorf("JSON(%q) = %s", in, got)
		}
	}
	if ready, rest := r.Pieces("fetched/t0"); strings.Contains(ready, "fetched") || rest == "" {
		t.Errorf("half of a secret is let through: %q, %q", ready, rest)
	}
}

func TestAddedSecretsAreBounded(t *testing.T) {
	r := &Redactor{}
	var all sync.WaitGroup
	r.Add("the very first one")
	for part := range 4 {
		all.Go(func() {
			for i := range maxAdded / 4 {
				r.Add(fmt.Sprintf("token-%d-%d-end", part, i))
			}
		})
	}
	all.Wait()
	if r.Text("the very first one") != "the very first one" {
		t.Error("the oldest secret is still looked for")
	}
	if got := r.Text("token-0-1-end token-3-2047-end"); got != "*** ***" {
		t.Errorf("got %q", got)
	}
	if n := len(r.added.order); n != maxAdded {
		t.Errorf("%d secrets, want %d", n, maxAdded)
	}
	for _, v := range r.added.order {
		r.added.forget(v)
	}
	if len(r.added.patterns.by) != 0 || r.added.bytes != 0 {
		t.Errorf("%d forms of %d bytes are left of secrets that are forgotten", len(r.added.patterns.by), r.added.bytes)
	}
	r = &Redactor{}
	for i := range 6 {
		r.Add(strings.Repeat(string(rune('a'+i)), maxAddedBytes/40))
	}
	if r.added.bytes > maxAddedBytes || len(r.added.order) < 2 {
		t.Errorf("%d secrets of %d bytes", len(r.added.order), r.added.bytes)
	}
}
