// Package tasks remembers which backend runs a task.
//
// Tasks exist twice: in 2025-11-25 a client asks for one with params.task, where the server
// has the capability tasks and the tool does not forbid it; with the extension of
// 2026-07-28 the server decides. Either way the messages pass through to the backend.
package tasks

import (
	"encoding/json"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

const (
	// most bounds how many tasks are remembered; the oldest are forgotten first.
	most = 10_000
	// idBytes is how long the id of one may be.
	idBytes = 1 << 10
)

// A Table remembers which backend runs a task, and for whom, so that tasks/get and its
// kin find their way (extension io.modelcontextprotocol/tasks). The zero value is empty.
type Table struct {
	mu    sync.Mutex
	owned map[key]owner // guarded by mu
	order []key         // guarded by mu, oldest first
}

// A key is a task of a principal: ids come from backends, and two of them may give the same
// one to two principals.
type key struct{ principal, id string }

type owner struct {
	tool    *catalog.Entry // whose call it is
	session string
}

// Note remembers the task that a result speaks of, which a call of tool has begun.
func (t *Table) Note(c *edge.Client, tool *catalog.Entry, result json.RawMessage) {
	if !jsonscan.Contains(result, `"taskId"`, "I") {
		return
	}
	id := jsonscan.GetString(result, "taskId")
	if id == "" {
		id = jsonscan.GetString(jsonscan.Get(result, "task"), "taskId")
	}
	if id != "" && len(id) <= idBytes {
		t.add(key{c.Principal, id}, owner{tool, sessionOf(c)})
	}
}

func sessionOf(c *edge.Client) string {
	if c.Session == nil {
		return ""
	}
	return c.Session.ID
}

func (t *Table) add(k key, o owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owned == nil {
		t.owned = map[key]owner{}
	}
	if _, known := t.owned[k]; !known {
		t.order = append(t.order, k)
	}
	t.owned[k] = o
	if len(t.order) > most {
		delete(t.owned, t.order[0])
		t.order = t.order[1:]
	}
}

// Tool is the tool whose call has begun a client's own task; another client's does not exist.
func (t *Table) Tool(id string, c *edge.Client) (tool *catalog.Entry, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.owned[key{c.Principal, id}]
	if !ok || c.Session != nil && o.session != c.Session.ID {
		return nil, false
	}
	return o.tool, true
}
