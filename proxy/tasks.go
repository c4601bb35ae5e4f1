package proxy

import (
	"encoding/json"
	"sync"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/internal/wire"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

const (
	// taskLimit bounds how many tasks are remembered; the oldest are forgotten first.
	taskLimit = 10_000
	// taskIDBytes is how long the id of one may be.
	taskIDBytes = 1 << 10
)

// Tasks exist twice: in 2025-11-25 a client asks for one with params.task, where the server
// has the capability tasks and the tool does not forbid it; with the extension of
// 2026-07-28 the server decides. Either way the messages pass through to the backend.

// refuseTask refuses to run a scripted tool as a task for a client that was told of
// tasks; one that was not is served as if it had not asked (2025-11-25, basic/utilities/tasks).
func (x *exchange) refuseTask(e *catalog.Entry) error {
	if s := x.client.Session; s == nil || !peerOf(s).tasks || jsonscan.Get(x.params, "task") == nil {
		return nil
	}
	return wire.Errorf(wire.MethodNotFound, "tool %s cannot run as a task: call it without task", e.Name)
}

// taskTable remembers which backend runs a task, and for whom, so that tasks/get and its
// kin find their way (extension io.modelcontextprotocol/tasks).
type taskTable struct {
	mu    sync.Mutex
	byID  map[string]taskOwner // guarded by mu
	order []string             // guarded by mu, oldest first
}

type taskOwner struct {
	tool               *catalog.Entry // whose call it is
	principal, session string
}

// noteTask remembers the task that a result speaks of.
func (p *Proxy) noteTask(x *exchange, e *catalog.Entry, result json.RawMessage) {
	if !jsonscan.Contains(result, `"taskId"`, "I") {
		return
	}
	id := jsonscan.GetString(result, "taskId")
	if id == "" {
		id = jsonscan.GetString(jsonscan.Get(result, "task"), "taskId")
	}
	if x.task != nil { // the result is about a task, and its tool is known
		e = x.task
	}
	if id != "" && len(id) <= taskIDBytes {
		p.tasks.add(id, ownerOf(x.client, e))
	}
}

func ownerOf(c *edge.Client, tool *catalog.Entry) taskOwner {
	o := taskOwner{tool: tool, principal: c.Principal}
	if c.Session != nil {
		o.session = c.Session.ID
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

// owner finds a client's own task; another client's does not exist.
func (t *taskTable) owner(id string, c *edge.Client) (o taskOwner, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok = t.byID[id]
	if !ok || o.principal != c.Principal || c.Session != nil && o.session != c.Session.ID {
		return taskOwner{}, false
	}
	return o, true
}
