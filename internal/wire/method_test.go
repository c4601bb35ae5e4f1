package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/vmcp-dev/vmcp/internal/wire"
)

func TestMethods(t *testing.T) {
	for _, tt := range []struct {
		method         string
		legacy, modern bool
		call           bool
		params, name   string
	}{
		{wire.ToolsCall, true, true, true, `{"name":"a","uri":"b"}`, "a"},
		{wire.ResourcesRead, true, true, true, `{"name":"a","uri":"b"}`, "b"},
		{wire.Initialize, true, false, false, `{"name":"a"}`, ""},
		{wire.Listen, false, true, false, `{"name":"a"}`, ""},
		{wire.TasksGet, true, true, true, `{"taskId":"t"}`, ""},
		{"tools/unknown", false, false, false, `{"name":"a"}`, ""},
	} {
		m := wire.MethodOf(tt.method)
		if m.Exists(false) != tt.legacy || m.Exists(true) != tt.modern || m.Call != tt.call {
			t.Errorf("%s: %+v, want legacy %v, modern %v, call %v", tt.method, *m, tt.legacy, tt.modern, tt.call)
		}
		if name, ok := m.NameIn(json.RawMessage(tt.params)); name != tt.name || ok != (tt.name != "") {
			t.Errorf("%s: the name in %s is %q, %v, want %q", tt.method, tt.params, name, ok, tt.name)
		}
	}
}

// TestCanAsk: a capability that is null does not count, and methods that servers do not send need none.
func TestCanAsk(t *testing.T) {
	for _, tt := range []struct {
		capabilities, method string
		want, any            bool
	}{
		{`{"elicitation":{}}`, wire.Elicit, true, true},
		{`{"elicitation":null}`, wire.Elicit, false, false},
		{`{"roots":{}}`, wire.CreateMessage, false, true},
		{`{"":{},"tools":{}}`, wire.ToolsCall, false, false},
		{``, wire.RootsList, false, false},
	} {
		c := json.RawMessage(tt.capabilities)
		if got, any := wire.CanAsk(c, tt.method), wire.CanAskAny(c); got != tt.want || any != tt.any {
			t.Errorf("CanAsk(%s, %s) = %v, CanAskAny %v, want %v, %v", tt.capabilities, tt.method, got, any, tt.want, tt.any)
		}
	}
}
