package toolserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestServesOnAfterBadLines sends lines that are no messages, each followed by a ping.
func TestServesOnAfterBadLines(t *testing.T) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error)
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	go func() { done <- s.Run(context.Background(), lineTransport(in, out)) }()
	answers := bufio.NewReader(fromServer)
	send := func(line string) {
		t.Helper()
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	receive := func() (id string, code int) {
		t.Helper()
		line, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			ID    json.RawMessage
			Error struct{ Code int }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		return string(m.ID), m.Error.Code
	}
	send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	receive()
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	send("")
	for i, tt := range []struct {
		line, id string
		code     int
	}{
		{`not json {`, "null", -32700},
		{`{"jsonrpc":"2.0","id":7,"method":"ping"} {}`, "null", -32700},
		{`{"jsonrpc":"1.0","id":7,"method":"ping"}`, "7", -32600},
		{`{"id":"a","method":"ping"}`, `"a"`, -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "null", -32600},
		{`{"jsonrpc":"2.0","id":7,"method":7}`, "null", -32600},
		{`{"jsonrpc":"2.0"}`, "null", -32600},
		{`7`, "null", -32600},
		{`null`, "null", -32600},
		{`[]`, "null", -32600},
		{`[{"jsonrpc":"2.0","id":7,"method":"ping"}]`, "null", -32600},
		{`"` + strings.Repeat("x", mcp.DefaultMaxLineLength+100_000) + `"`, "null", -32600},
	} {
		send(tt.line)
		if id, code := receive(); id != tt.id || code != tt.code {
			t.Errorf("%.60s: got %d for id %s, want %d for %s", tt.line, code, id, tt.code, tt.id)
		}
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":"ping%d","method":"ping"}`, i))
		if id, code := receive(); id != fmt.Sprintf(`"ping%d"`, i) || code != 0 {
			t.Errorf("ping after %.60s: got %d for id %s", tt.line, code, id)
		}
	}
	toServer.Close()
	if err := ended(<-done); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}
