package relay

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/test/raw"
)

// asRooted is the environment variable that makes this test binary a stdio server.
const asRooted = "SESSIONS_TEST_ROOTED"

// rooted is a server that behaves like npm's filesystem server without directories: it
// requests the roots when it is initialized, allows the roots of the response, and
// returns the roots that it allows.
func rooted() {
	allowed, asks := "nothing", false
	out := bufio.NewWriter(os.Stdout)
	send := func(format string, args ...any) {
		fmt.Fprintf(out, format+"\n", args...)
		out.Flush()
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m raw.Message
		json.Unmarshal(in.Bytes(), &m)
		switch {
		case m.Method == "initialize":
			asks = strings.Contains(string(m.Params), `"roots"`)
			send(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"rooted","version":"1"}}}`, m.ID)
		case m.Method == "notifications/initialized" && asks:
			send(`{"jsonrpc":"2.0","id":"roots","method":"roots/list"}`)
		case m.Method == "tools/list":
			send(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"allowed",%s}]}}`, m.ID, schema)
		case m.Method == "tools/call":
			text, _ := json.Marshal(allowed)
			send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, m.ID, text)
		case m.Method == "ping":
			send(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		case string(m.ID) == `"roots"` && m.Error != nil:
			allowed = "error: " + m.Error.Message
		case string(m.ID) == `"roots"`:
			allowed = string(m.Result)
		case m.ID != nil:
			send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		}
	}
}

// TestServerThatAsksForRootsAtItsStart: the server has the client's roots before the client's first call;
// a process that clients share gets an empty list, and no error.
func TestServerThatAsksForRootsAtItsStart(t *testing.T) {
	url := serve(t, &config.Config{Backends: []config.Backend{{Name: "b", Command: os.Args[0], Env: map[string]string{asRooted: "1"}}}})
	var all sync.WaitGroup
	for i := range 4 {
		roots := fmt.Sprintf(`{"roots":[{"uri":"file:///home/%d"}]}`, i)
		c := &raw.Client{URL: url + "/mcp", Revision: legacy, Capabilities: `{"roots":{}}`, Asked: func(raw.Message) string { return roots }}
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range 2 {
				if got, err := call(t, c, "allowed"); got != roots {
					t.Errorf("client %d: %q, %v, want its roots", i, got, err)
				}
			}
		})
	}
	all.Wait()
	plain := connect(t, url, legacy, `{}`)
	if got := must(t, plain, "allowed"); got != `{"roots":[]}` {
		t.Errorf("without roots: %q, want an empty list", got)
	}
}
