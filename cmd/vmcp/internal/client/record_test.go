package client

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// answering is a server that always sends the same response.
type answering struct{ contentType, body string }

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{"Content-Type": {a.contentType}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// recorded sends one request through a recorder and reads the response.
func recorded(t *testing.T, a answering, notify func(string, json.RawMessage)) *recorder {
	t.Helper()
	r := &recorder{base: a, notify: notify}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != a.body {
		t.Fatalf("read %q, %v; want the body as it was", got, err)
	}
	return r
}

// The form of a question is shown in the order of its text, in every revision of the protocol.
func TestFormAsItWasSent(t *testing.T) {
	const form = `{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}}`
	const params = `{"message":"Sure?","requestedSchema":` + form + `}`
	for era, a := range map[string]answering{
		"with sessions": {"text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"elicitation/create\",\"params\":" + params + "}\n\n"},
		"stateless":     {"application/json", `{"jsonrpc":"2.0","id":1,"result":{"inputRequests":{"0":{"method":"elicitation/create","params":` + params + `}}}}`},
	} {
		r := recorded(t, a, nil)
		if got := string(r.form("Sure?")); got != form {
			t.Errorf("%s: form = %s, want %s", era, got, form)
		}
		if got := r.form("Another?"); got != nil {
			t.Errorf("%s: the form of another question = %s", era, got)
		}
	}
}

func TestNotificationsComeInTheirOrder(t *testing.T) {
	var notified []string
	r := recorded(t, answering{"text/event-stream", `data: {"jsonrpc":"2.0","method":"a","params":{"n":1}}

data: {"jsonrpc":"2.0","method":"b"}

data: {"jsonrpc":"2.0","id":1,"result":{"content":[],"big":9007199254740993}}

`}, func(method string, params json.RawMessage) { notified = append(notified, method+string(params)) })
	if got, want := strings.Join(notified, " "), `a{"n":1} b`; got != want {
		t.Errorf("notified %s, want %s", got, want)
	}
	if got, want := string(r.result()), `{"content":[],"big":9007199254740993}`; got != want {
		t.Errorf("result = %s, want %s", got, want)
	}
}
