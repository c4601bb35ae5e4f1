package proxy

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/cluster"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// This part of the package stores which backend runs a task.
//
// There are two kinds of tasks: in 2025-11-25 a client requests one with params.task, if the server has the capability
// tasks and the tool does not forbid it; with the extension of 2026-07-28 the server decides. The messages of both are
// passed on to the backend.

const (
	// tasksMost bounds the tasks in memory; the oldest are dropped.
	tasksMost = 10_000
	// idBytes bounds the id of a task, in bytes.
	idBytes = 1 << 10
	// shortest and longest bound the time for which the shared store keeps a task.
	shortest, longest = 24 * time.Hour, 30 * 24 * time.Hour
	// putWithin bounds writing to it.
	putWithin = 2 * time.Second
)

// A Table has the backend and the owner of each task, for tasks/get and the other methods with a taskId (extension
// io.modelcontextprotocol/tasks). The zero value is empty.
type Table struct {
	mu    sync.Mutex
	owned map[tasksKey]owner // guarded by mu
	order []tasksKey         // guarded by mu, oldest first

	shared atomic.Pointer[cluster.Members] // nil: not in a cluster
}

// A key is a task of a principal: ids are chosen by backends, and two backends may give the same id to two principals.
type tasksKey struct{ principal, id string }

type owner struct {
	tool    *catalog.Entry // that was called
	session string
}

// Use shares the tasks with the other replicas of a cluster.
func (t *Table) Use(m *cluster.Members) { t.shared.Store(m) }

// Note stores the task of a result that a call of tool has begun. When it returns nil, every replica can find the task;
// after an error only this one.
func (t *Table) Note(ctx context.Context, c *edge.Client, tool *catalog.Entry, result json.RawMessage) error {
	if !jsonscan.Contains(result, `"taskId"`, "I") {
		return nil
	}
	task := result
	id := jsonscan.GetString(result, "taskId")
	if id == "" {
		task = jsonscan.Get(result, "task")
		id = jsonscan.GetString(task, "taskId")
	}
	if id == "" || len(id) > idBytes {
		return nil
	}
	m := t.shared.Load()
	if t.add(tasksKey{c.Principal, id}, owner{tool, sessionOf(c)}) || m == nil || tool.Backend == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, putWithin)
	defer cancel()
	return m.PutTask(ctx, cluster.Task{Principal: c.Principal, ID: id, Backend: tool.Backend.Name(), Tool: tool.Original, Session: sessionOf(c)}, life(task))
}

// life is how long the shared store keeps a task.
func life(task json.RawMessage) time.Duration {
	ttl := time.Duration(0)
	for _, member := range []string{"ttl", "ttlMs"} {
		if ms, err := strconv.ParseFloat(string(jsonscan.Get(task, member)), 64); err == nil && ms > 0 {
			ttl = time.Duration(min(ms, float64(longest/time.Millisecond))) * time.Millisecond
		}
	}
	return min(max(shortest, 2*ttl), longest)
}

func sessionOf(c *edge.Client) string {
	if c.Session == nil {
		return ""
	}
	return c.Session.ID
}

// add reports whether the task was there already.
func (t *Table) add(k tasksKey, o owner) (known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owned == nil {
		t.owned = map[tasksKey]owner{}
	}
	if _, known = t.owned[k]; !known {
		t.order = append(t.order, k)
	}
	t.owned[k] = o
	if len(t.order) > tasksMost {
		delete(t.owned, t.order[0])
		t.order = t.order[1:]
	}
	return known
}

// Tool is the tool whose call has begun a task of this client; ok is false for unknown tasks and those of other
// clients. The error says that the shared store, which may have it, does not answer.
func (t *Table) Tool(ctx context.Context, id string, c *edge.Client, now *catalog.Catalog) (tool *catalog.Entry, ok bool, err error) {
	k := tasksKey{c.Principal, id}
	t.mu.Lock()
	o, ok := t.owned[k]
	t.mu.Unlock()
	if m := t.shared.Load(); !ok && m != nil && id != "" && len(id) <= idBytes {
		if o, ok, err = find(ctx, m, k, now); err != nil {
			return nil, false, err
		}
		if ok {
			t.add(k, o)
		}
	}
	if !ok || c.Session != nil && o.session != c.Session.ID {
		return nil, false, nil
	}
	return o.tool, true, nil
}

// find reads a task of another replica from the shared store. Its tool is that of the current catalog.
func find(ctx context.Context, m *cluster.Members, k tasksKey, now *catalog.Catalog) (owner, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, putWithin)
	defer cancel()
	task, ok, err := m.Task(ctx, k.principal, k.id)
	if !ok || err != nil {
		return owner{}, false, err
	}
	tool := now.Find(catalog.AnyTool(task.Backend + "." + task.Tool))
	if tool == nil || tool.Backend == nil || tool.Backend.Name() != task.Backend || tool.Original != task.Tool {
		return owner{}, false, nil
	}
	return owner{tool, task.Session}, true, nil
}
