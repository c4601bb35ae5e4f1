package proxy

import (
	"encoding/json"
	"sync"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// taskLimit bounds how many tasks are remembered; the oldest are forgotten first.
const taskLimit = 10_000

// taskTable remembers which backend runs a task, and for whom, so that tasks/get and its
// kin find their way (extension io.modelcontextprotocol/tasks).
type taskTable struct {
	mu    sync.Mutex
	byID  map[string]taskOwner // guarded by mu
	order []string             // guarded by mu, oldest first
}

type taskOwner struct {
	backend            *backends.Backend
	principal, session string
}

// noteTask remembers the task that a result speaks of.
func (p *Proxy) noteTask(x *exchange, e *entry, result json.RawMessage) {
	if !contains(result, `"taskId"`, "I") {
		return
	}
	id := wire.GetString(result, "taskId")
	if id == "" {
		id = wire.GetString(wire.Get(result, "task"), "taskId")
	}
	if id != "" {
		p.tasks.add(id, ownerOf(x.client, e.backend))
	}
}

func ownerOf(c *client, be *backends.Backend) taskOwner {
	o := taskOwner{backend: be, principal: c.principal}
	if c.session != nil {
		o.session = c.session.id
	}
	return o
}

func (t *taskTable) add(id string, o taskOwner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[string]taskOwner{}
	}
	if _, known := t.byID[id]; !known {
		t.order = append(t.order, id)
	}
	t.byID[id] = o
	if len(t.order) > taskLimit {
		delete(t.byID, t.order[0])
		t.order = t.order[1:]
	}
}

// owner finds the backend of a client's own task; another client's does not exist.
func (t *taskTable) owner(id string, c *client) *backends.Backend {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.byID[id]
	if !ok || o.principal != c.principal || c.session != nil && o.session != c.session.id {
		return nil
	}
	return o.backend
}
