package author_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/cmd/vmcp/internal/author"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/secret"
	wiretest "github.com/vmcp-dev/vmcp/test/raw"
)

// offering is a backend with these results, by method.
func offering(t *testing.T, name string, answers map[string]string) config.Backend {
	t.Helper()
	s := &wiretest.Server{Capabilities: `{"tools":{},"prompts":{},"resources":{}}`, Handle: func(c *wiretest.Call) (string, error) {
		switch answer, ok := answers[c.Method]; {
		case ok && answer == "":
			return "", &wiretest.Error{Code: -32000, Message: "not now"}
		case ok:
			return answer, nil
		}
		return "", wiretest.ErrDefault
	}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return config.Backend{Name: name, URL: server.URL}
}

func gather(t *testing.T, limit time.Duration, all ...config.Backend) (string, error) {
	t.Helper()
	f, err := author.Gather(t.Context(), &config.Config{Backends: all}, author.OffersOptions{Log: slog.New(slog.DiscardHandler), Secrets: &secret.Redactor{}, Limit: limit})
	if err != nil {
		return "", err
	}
	text, err := f.Bytes()
	return string(text), err
}

// TestOrderDoesNotCount: the order of backends, of their lists and of the pages of a list
// does not change the lock.
func TestOrderDoesNotCount(t *testing.T) {
	one := offering(t, "one", map[string]string{"tools/list": `{"tools":[{"name":"a"},{"name":"b"}]}`, "prompts/list": `{"prompts":[{"name":"a"}]}`})
	other := offering(t, "one", map[string]string{"tools/list": `{"tools":[{"name":"b"}, { "name" : "\u0061" }, {"name":"a"}]}`, "prompts/list": `{"prompts":[{"name":"a"}]}`})
	two := offering(t, "two", map[string]string{"resources/list": `{"resources":[{"name":"r","uri":"x://r"}]}`, "resources/templates/list": `{"resourceTemplates":[{"name":"t","uriTemplate":"x://{t}"}]}`})
	first, err := gather(t, time.Minute, one, two)
	if err != nil {
		t.Fatal(err)
	}
	second, err := gather(t, time.Minute, two, other)
	if err != nil || first != second {
		t.Errorf("%v, first\n%s\nsecond\n%s", err, first, second)
	}
	for _, want := range []string{`"one.a"`, `"one.b"`, `"prompt:one.a"`, `"resource:two.x://r"`, `"template:two.x://{t}"`} {
		if !strings.Contains(first, want) {
			t.Errorf("no %s in\n%s", want, first)
		}
	}
}

// TestWhatIsNotWhole: the error names each backend that does not answer or answers in part.
func TestWhatIsNotWhole(t *testing.T) {
	good := offering(t, "good", map[string]string{"tools/list": `{"tools":[{"name":"a"}]}`})
	bad := []config.Backend{
		offering(t, "endless", map[string]string{"tools/list": `{"tools":[{"name":"a"}],"nextCursor":"1"}`}),
		offering(t, "refusing", map[string]string{"prompts/list": ""}),
		offering(t, "twice", map[string]string{"tools/list": `{"tools":[{"name":"a"},{"name":"a","title":"A"}]}`}),
		{Name: "nobody", URL: "http://127.0.0.1:1/mcp"},
		{Name: "nothing", Command: "/nowhere/at/all"},
	}
	_, err := gather(t, time.Minute, append(bad, good)...)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"backend endless: tools/list: the list is not complete", "backend refusing: prompts/list: the list is not complete",
		"twice.a: offered twice, with different definitions", "backend nobody: ", "backend nothing: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "good") {
		t.Errorf("%v", err)
	}
}

// TestWhoNeverAnswers: a backend that does not answer is waited for until the limit.
func TestWhoNeverAnswers(t *testing.T) {
	silent := &wiretest.Server{Handle: func(c *wiretest.Call) (string, error) { <-c.Done(); return "", context.Canceled }}
	server := httptest.NewServer(silent)
	t.Cleanup(server.Close)
	if _, err := gather(t, 50*time.Millisecond, config.Backend{Name: "silent", URL: server.URL}); err == nil || err.Error() != "backend silent: no answer within 50ms" {
		t.Errorf("%v", err)
	}
}
