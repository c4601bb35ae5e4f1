package raw_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/test/raw"
)

// odd is a result that decoding and encoding would change.
const odd = `{ "b":1.0,"a":9007199254740993, "t":"\u0041<"}`

func server(modern bool) *raw.Server {
	return &raw.Server{Modern: modern, Handle: func(c *raw.Call) (string, error) {
		switch c.Method {
		case "odd":
			return odd, nil
		case "ask":
			if err := c.Notify("notifications/progress", `{"progress":1}`); err != nil {
				return "", err
			}
			got, err := c.Ask("roots/list", `{}`)
			return string(got), err
		}
		return "", raw.ErrDefault
	}}
}

// The client and the server must keep all bytes, to test whether the proxy does.
func TestHTTPKeepsBytes(t *testing.T) {
	for _, revision := range []string{"2025-11-25", raw.Modern} {
		s := httptest.NewServer(server(revision == raw.Modern))
		defer s.Close()
		c := &raw.Client{URL: s.URL, Revision: revision}
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Call(t.Context(), "odd", `{}`); string(got) != odd || err != nil {
			t.Errorf("%s: got %s, %v, want %s", revision, got, err, odd)
		}
		if _, err := c.Call(t.Context(), "nothing", `{}`); err == nil || !strings.Contains(err.Error(), "-32601") {
			t.Errorf("%s: unknown method: %v, want -32601", revision, err)
		}
	}
}

func TestHTTPAsksInTheCallsStream(t *testing.T) {
	s := httptest.NewServer(server(false))
	defer s.Close()
	var seen []string
	c := &raw.Client{URL: s.URL, Revision: "2025-11-25",
		Notified: func(m raw.Message) { seen = append(seen, m.Method) },
		Asked:    func(m raw.Message) string { seen = append(seen, m.Method); return odd },
	}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := c.Call(t.Context(), "ask", `{}`)
	if err != nil || string(got) != odd {
		t.Errorf("ask: %s, %v, want %s", got, err, odd)
	}
	if want := "[notifications/progress roots/list]"; fmt.Sprint(seen) != want {
		t.Errorf("seen %v, want %s", seen, want)
	}
}

func TestStdioKeepsBytes(t *testing.T) {
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- server(false).ServeStdio(fromClient, toClient) }()
	c := raw.NewStdioClient("2025-11-25", fromServer, toServer)
	if err := c.Connect(); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Call("odd", `{}`); string(got) != odd || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, odd)
	}
	toServer.Close()
	if err := <-done; err != io.EOF {
		t.Errorf("serve: %v, want EOF", err)
	}
}

func TestListsAreJSON(t *testing.T) {
	for _, modern := range []bool{false, true} {
		if text := server(modern).List("tools", `{"name":"a"}`, `{"name":"b"}`); !json.Valid([]byte(text)) {
			t.Errorf("List: %s is not JSON", text)
		}
	}
}
