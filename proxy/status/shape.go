package status

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
)

// This part of the package keeps the shape of the last result of each tool: its keys, with types in place of values.

const (
	// maxResult bounds a result that is analysed, maxShape the stored shape, in bytes.
	maxResult, maxShape = 256 << 10, 8 << 10
	// maxTools bounds the tools with a stored shape.
	maxTools = 10_000
	// Bounds of a shape: keys of an object, different shapes of elements of a list, depth.
	maxKeys, maxMembers, maxDepth = 60, 5, 8
	// After analysing a result, Note does nothing for rest times as long as that took, and for pause at least: calls
	// must not become slower.
	rest  = 50
	pause = 100 * time.Millisecond
)

// Table has the shapes of results by tool name. It is safe for concurrent use; its zero value is empty.
type Table struct {
	mu  sync.RWMutex
	all map[string]*last // guarded by mu
}

// last is the last shape of one tool.
type last struct {
	mu    sync.Mutex
	at    time.Time       // guarded by mu
	shape json.RawMessage // guarded by mu
	until time.Time       // guarded by mu: no result is analysed before
}

// Note analyses the result of a tool, unless one was analysed just before or it is too large.
func (t *Table) Note(tool string, result []byte) {
	l := t.of(tool)
	if len(result) > maxResult || !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	began := time.Now()
	if began.Before(l.until) {
		return
	}
	l.at, l.shape = began, shapeOf(result)
	end := time.Now()
	l.until = end.Add(max(rest*end.Sub(began), pause))
}

// of finds or makes the entry of a tool. If there are too many, all are dropped.
func (t *Table) of(tool string) *last {
	if l := t.find(tool); l != nil {
		return l
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.all[tool]; l != nil {
		return l
	}
	if t.all == nil || len(t.all) >= maxTools {
		t.all = map[string]*last{}
	}
	l := &last{}
	t.all[tool] = l
	return l
}

func (t *Table) find(tool string) *last {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.all[tool]
}

// Last is the shape of the last analysed result of a tool; nil for none.
func (t *Table) Last(tool string) (at time.Time, shape json.RawMessage) {
	l := t.find(tool)
	if l == nil {
		return time.Time{}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at, l.shape
}

// shapeOf is the shape of what a script gets from the result of tools/call: the structured content, else the JSON in its
// only text, else the text; else the content blocks.
func shapeOf(result []byte) json.RawMessage {
	value := jsonscan.Get(result, "structuredContent")
	if value == nil {
		value = jsonscan.Get(result, "content")
		var content []struct{ Type, Text string }
		if json.Unmarshal(value, &content) == nil && len(content) == 1 && content[0].Type == "text" {
			value = json.RawMessage(`""`)
			if text := strings.TrimSpace(content[0].Text); strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
				if json.Valid([]byte(text)) {
					value = json.RawMessage(text)
				}
			}
		}
	}
	var tree any
	if json.Unmarshal(value, &tree) != nil {
		return json.RawMessage(`"null"`)
	}
	for depth := maxDepth; ; depth-- {
		var b bytes.Buffer
		write(&b, tree, depth)
		if b.Len() <= maxShape || depth == 0 { // at depth 0 it is one word
			return b.Bytes()
		}
	}
}

// write writes the shape of a value.
func write(b *bytes.Buffer, v any, depth int) {
	switch v := v.(type) {
	case string:
		b.WriteString(`"string"`)
	case float64:
		b.WriteString(`"number"`)
	case bool:
		b.WriteString(`"boolean"`)
	case []any:
		writeList(b, v, depth)
	case map[string]any:
		writeObject(b, v, depth)
	default:
		b.WriteString(`"null"`)
	}
}

func writeList(b *bytes.Buffer, list []any, depth int) {
	if depth == 0 {
		b.WriteString(`"array"`)
		return
	}
	var shapes []string
	for _, v := range list[:min(len(list), 100)] {
		var one bytes.Buffer
		if write(&one, v, depth-1); !slices.Contains(shapes, one.String()) && len(shapes) < maxMembers {
			shapes = append(shapes, one.String())
		}
	}
	b.WriteString("[" + strings.Join(shapes, ",") + "]")
}

func writeObject(b *bytes.Buffer, o map[string]any, depth int) {
	if depth == 0 || len(o) > maxKeys { // an object with so many keys is data
		b.WriteString(`"object"`)
		return
	}
	names := make([]string, 0, len(o))
	for name := range o {
		names = append(names, name)
	}
	slices.Sort(names)
	b.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(name) // cannot fail: a string
		b.Write(key)
		b.WriteByte(':')
		write(b, o[name], depth-1)
	}
	b.WriteByte('}')
}
