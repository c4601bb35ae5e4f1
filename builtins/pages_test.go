package builtins_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/builtins/scripttest"
)

// An iterator cannot return an error, so a page that fails looks like the last one.
func TestNothingIsDoneWithHalfOfThePages(t *testing.T) {
	h := &scripttest.Host{Tools: map[string]scripttest.Tool{
		"delete": scripttest.Echo,
		"files": func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
			if bytes.Contains(args, []byte("cursor")) {
				return nil, &builtins.ToolError{Kind: builtins.Unavailable, Msg: "connection reset"}
			}
			return scripttest.Structured(`{"items": [1, 2], "nextCursor": "x"}`), nil
		},
	}}
	for _, src := range []string{
		`def run(p): return parallel(lambda f: call_tool("delete", {"file": f}), pages("files"))`,
		`def run(p): return [call_tool("delete", {"file": f}) for f in list(pages("files"))]`,
		`def run(p): return call_tool("delete", {"files": list(pages("files"))})`,
	} {
		_, err := scripttest.Run(t, h, src, `{}`)
		if err == nil || !strings.Contains(err.Error(), `pages("files"): connection reset`) {
			t.Errorf("%s: %v", src, err)
		}
	}
	for _, c := range h.Calls() {
		if c.Tool == "delete" {
			t.Errorf("called %s(%s)", c.Tool, c.Args)
		}
	}
}
