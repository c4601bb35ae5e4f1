package runs_test

import (
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/runs"
)

// TestReservedKeysAreStripped: a peer cannot set the protocol's keys of _meta for another.
func TestReservedKeysAreStripped(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"uri":"a"}`, `{"uri":"a"}`},
		{`{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"uri":"a"}`, `{"uri":"a"}`},
		{`{"uri":"a","_meta":{"io.modelcontextprotocol/subscriptionId":1,"mine":2}}`, `{"uri":"a","_meta":{"mine":2}}`},
		{`{"text":"io.modelcontextprotocol/ is a prefix"}`, `{"text":"io.modelcontextprotocol/ is a prefix"}`},
	} {
		if got := string(runs.CleanMeta([]byte(tt.in))); got != tt.want {
			t.Errorf("cleanMeta(%s)\n got %s\nwant %s", tt.in, got, tt.want)
		}
	}
	modern := runs.Result{Modern: true, ServerInfo: []byte(`{"name":"us"}`)}
	legacy := runs.Result{}
	for _, tt := range []struct {
		name     string
		e        runs.Result
		in, want string
	}{
		{"another server's introduction", modern, `{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"them"}}}`, `{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"us"}}}`},
		{"nothing to change", modern, `{ "resultType":"complete","n":1.0}`, `{ "resultType":"complete","n":1.0}`},
		{"a result without a type", modern, `{"content":[] }`, `{"content":[] ,"resultType":"complete"}`},
		{"a type that the client does not know", legacy, `{"resultType":"complete","content":[]}`, `{"content":[]}`},
		{"an introduction to a legacy client", legacy, `{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}`, `{"content":[]}`},
		{"a legacy result", legacy, `{"content":[],"x":9007199254740993}`, `{"content":[],"x":9007199254740993}`},
		{"a read without caching hints", runs.Result{Modern: true, Cacheable: true}, `{"contents":[],"ttlMs":5}`, `{"contents":[],"ttlMs":5,"resultType":"complete","cacheScope":"private"}`},
	} {
		if got := string(tt.e.Apply([]byte(tt.in))); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}
