//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/testmode"
)

// A server that is killed while it works leaves whole lines, and with mode strict at
// least one for every call that was answered.
func TestAKilledServerLeavesWholeLines(t *testing.T) {
	testmode.NeedThorough(t)
	for _, mode := range []string{"best-effort", "strict"} {
		t.Run(mode, func(t *testing.T) {
			r := newReader(t)
			r.write(defaultFile, fmt.Sprintf("audit: {enabled: true, logFile: audit.jsonl, mode: %s, includeRequestData: true, maxDataSize: 8000}\nbackends: [{name: files, command: workspace}]\n", mode))
			r.startServe(t)
			var answered atomic.Int64
			var clients sync.WaitGroup
			enough := make(chan struct{})
			var once sync.Once
			for n := range 8 {
				clients.Go(func() {
					for i := 0; ; i++ {
						body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_files","arguments":{"path":%q},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, strings.Repeat("x", 700*n))
						req, _ := http.NewRequest("POST", "http://127.0.0.1:"+r.port+"/mcp", strings.NewReader(body))
						for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "list_files"} {
							req.Header.Set(k, v)
						}
						resp, err := http.DefaultClient.Do(req)
						if err != nil {
							return
						}
						resp.Body.Close()
						if answered.Add(1) == 300 {
							once.Do(func() { close(enough) })
						}
					}
				})
			}
			<-enough
			r.must(r.server.Process.Kill())
			_ = r.server.Wait() // it was killed
			r.server = nil
			clients.Wait()
			text, err := os.ReadFile(filepath.Join(r.dir, "audit.jsonl"))
			r.must(err)
			if cut := strings.LastIndexByte(string(text), '\n') + 1; cut < len(text) && len(text)%os.Getpagesize() == 0 {
				text = text[:cut] // the kernel may cut a write of a killed process at a page
			}
			ended := int64(0)
			for line := range strings.Lines(string(text)) {
				var l struct{ Type, Outcome string }
				if err := json.Unmarshal([]byte(line), &l); err != nil || !strings.HasSuffix(line, "\n") {
					t.Fatalf("%v: %.200q", err, line)
				}
				if l.Type == "mcp_tool_call" && l.Outcome != "started" {
					ended++
				}
			}
			if mode == "strict" && ended < answered.Load() || ended == 0 {
				t.Errorf("%d lines of calls, %d were answered", ended, answered.Load())
			}
		})
	}
}
