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
	owned map[taskKey]taskOwner // guarded by mu
	order []taskKey             // guarded by mu, oldest first
}

// A taskKey is a task of a principal: ids come from backends, and two of them may give the same
// one to two principals.
type taskKey struct{ principal, id string }

type taskOwner struct {
	tool    *catalog.Entry // whose call it is
	session string
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
		p.tasks.add(taskKey{x.client.Principal, id}, ownerOf(x.client, e))
	}
}

func ownerOf(c *edge.Client, tool *catalog.Entry) taskOwner {
	o := taskOwner{tool: tool}
	if c.Session != nil {
		o.session = c.Session.ID
	}
	return o
}

func (t *taskTable) add(k taskKey, o taskOwner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owned == nil {
		t.owned = map[taskKey]taskOwner{}
	}
	if _, known := t.owned[k]; !known {
		t.order = append(t.order, k)
	}
	t.owned[k] = o
	if len(t.order) > taskLimit {
		delete(t.owned, t.order[0])
		t.order = t.order[1:]
	}
}

// owner finds a client's own task; another client's does not exist.
func (t *taskTable) owner(id string, c *edge.Client) (o taskOwner, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok = t.owned[taskKey{c.Principal, id}]
	if !ok || c.Session != nil && o.session != c.Session.ID {
		return taskOwner{}, false
	}
	return o, true
}
