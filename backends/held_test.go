package backends_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/backends/backendtest"
	"github.com/vmcp-dev/vmcp/config"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// TestPrivateListsAreBounded: the lists of a private session that differ from the shared
// ones are used up to a size, and otherwise not kept.
func TestPrivateListsAreBounded(t *testing.T) {
	for _, size := range []int{100, 2 << 20} {
		var sessions atomic.Int32
		raw := &backendtest.Raw{}
		raw.First = func(x *backendtest.Exchange) bool {
			switch x.Message.Method {
			case wire.Initialize:
				x.Header().Set(wire.HeaderSession, fmt.Sprint("s", sessions.Add(1)))
				x.JSON(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"}}`)
			case wire.ToolsList:
				text := "for all"
				if x.Request.Header.Get(wire.HeaderSession) != "s1" {
					text = strings.Repeat("x", size)
				}
				x.JSON(fmt.Sprintf(`{"tools":[{"name":"t","inputSchema":{"type":"object"},"description":%q}]}`, text))
			case wire.ToolsCall:
				x.JSON(`{"content":[]}`)
			default:
				return false
			}
			return true
		}
		b, _ := ready(t, backends.Options{}, config.Backend{Name: "b", URL: raw.Start(t)})
		of := &backends.Caller{Session: "ann", Sink: make(started, 1)}
		result(t, b, tool("t", `{}`, of))
		own := string(b.OfferFor(t.Context(), "ann").Tools[0].Raw)
		if got, want := strings.Contains(own, "xxx"), size < 1<<20; got != want {
			t.Errorf("a definition of %d bytes for one session is shown: %v, want %v", size, got, want)
		}
	}
}
