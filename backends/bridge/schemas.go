package bridge

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

const (
	// maxSchemas bounds the tools with header parameters that are remembered, and maxSchemaBytes the size of
	// each.
	maxSchemas     = 10_000
	maxSchemaBytes = 4 << 10
	// maxPages bounds the pages of a list that the bridge itself requests.
	maxPages = 1_000
)

// schemas are the arguments of tools that must be repeated in headers. They are read from the lists that are
// forwarded to the client, and from a list that the bridge requests when the endpoint reports a missing header.
type schemas struct {
	mu  sync.Mutex
	all map[string][]wire.HeaderParam // guarded by mu, by the tool's name; a tool without any is not in it
}

// learn reads a page of a list of tools.
func (s *schemas) learn(result json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	jsonscan.Elements(jsonscan.Get(result, "tools"), func(tool []byte) bool {
		name := jsonscan.GetString(tool, "name")
		params, err := wire.HeaderParams(tool)
		switch {
		case err != nil || len(params) == 0 || size(params)+len(name) > maxSchemaBytes:
			delete(s.all, name)
		case len(s.all) < maxSchemas || s.all[name] != nil:
			if s.all == nil {
				s.all = map[string][]wire.HeaderParam{}
			}
			s.all[name] = params
		}
		return true
	})
}

func size(params []wire.HeaderParam) (n int) {
	for _, p := range params {
		n += len(p.Header) + len(strings.Join(p.Path, ""))
	}
	return n
}

// addTo adds the headers that a call of a tool needs.
func (s *schemas) addTo(h http.Header, params json.RawMessage) {
	s.mu.Lock()
	declared := s.all[jsonscan.GetString(params, "name")]
	s.mu.Unlock()
	arguments := jsonscan.Get(params, "arguments")
	for i := range declared {
		if text, ok := declared[i].Text(arguments); ok {
			h.Set(declared[i].Header, wire.EncodeHeader(text))
		}
	}
}

// modern posts a request of 2026-07-28. A call that is refused for its headers (HeaderMismatch) was not executed: it is
// retried once after the tools have been listed.
func (b *bridge) modern(c *call) ([]byte, error) {
	answer, err := b.once(c)
	if err != nil || answer == nil {
		return answer, err
	}
	m, _ := wire.Skim(answer) // b.once has checked it
	switch {
	case c.method == wire.ToolsList && m.Result != nil:
		b.schemas.learn(m.Result)
	case c.method == wire.ToolsCall && m.Error != nil && wire.ParseErrorObject(m.Error).Code == wire.HeaderMismatch:
		if b.listTools(c) {
			c.release()
			return b.once(c)
		}
	}
	return answer, nil
}

// listTools lists the tools with the _meta of a client's call, and reports whether it succeeded.
func (b *bridge) listTools(of *call) bool {
	const id = `"vmcp-list"`
	meta := jsonscan.Delete(jsonscan.Get(of.params, "_meta"), func(key string) bool { return key == "progressToken" })
	cursor := ""
	for range maxPages {
		params := new(jsonscan.Object).Raw("_meta", meta)
		if cursor != "" {
			params.Text("cursor", cursor)
		}
		c := &call{ctx: of.ctx, id: json.RawMessage(id), method: wire.ToolsList, params: params.JSON(), revision: of.revision}
		c.frame = wire.Request(c.id, c.method, c.params)
		answer, err := b.once(c)
		c.release()
		if err != nil {
			return false
		}
		m, _ := wire.Skim(answer)
		if m.Result == nil {
			return false
		}
		b.schemas.learn(m.Result)
		if cursor = jsonscan.GetString(m.Result, "nextCursor"); cursor == "" {
			return true
		}
	}
	return true
}
