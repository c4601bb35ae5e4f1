package edge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/backends"
)

// TestBatchesAreBounded: by the number of messages, and by the size of the responses together.
func TestBatchesAreBounded(t *testing.T) {
	v := started(t)
	id, _, _ := initialize(t, v, "", `"protocolVersion":"2025-03-26"`)
	for n, want := range map[int]int{maxBatch: 200, maxBatch + 1: 400} {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
		}
		r := httptest.NewRequest("POST", "/mcp", strings.NewReader("["+strings.Join(members, ",")+"]"))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Mcp-Session-Id", id)
		w := httptest.NewRecorder()
		v.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%d messages: %d %.200s, want %d", n, w.Code, w.Body, want)
		}
	}
	reply := &batchReply{}
	large := &backends.Response{Result: make(json.RawMessage, MaxFrame/2)}
	for range 5 {
		reply.finish(json.RawMessage("1"), large, nil)
	}
	if reply.size > MaxFrame+1000 || len(reply.answers) != 5 || !strings.Contains(string(reply.answers[4]), "larger than the limit") {
		t.Errorf("%d answers hold %d bytes, the last is %.200s", len(reply.answers), reply.size, reply.answers[len(reply.answers)-1])
	}
}

// TestLongLineEndsStdio: a line of a client on a pipe is bounded.
func TestLongLineEndsStdio(t *testing.T) {
	v := started(t)
	err := v.ServeStdio(t.Context(), endless{}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint("larger than ", MaxFrame)) {
		t.Errorf("an endless line ended with %v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, errors.New("nothing was asked for")
	}
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}
