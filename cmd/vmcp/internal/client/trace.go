package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// Trace is the steps that a scripted tool made, as the server sends them.
type Trace status.Trace

// node is a step with the steps inside it.
type node struct {
	at       string         // the last part of its key
	effect   *status.Effect // nil for what only groups others: a parallel, a branch
	children []*node
}

// TraceOf returns the trace in a result; nil if it has none.
func TraceOf(result json.RawMessage) *Trace {
	raw := jsonscan.GetPath(result, "_meta", status.Key)
	var t Trace
	if raw == nil || json.Unmarshal(raw, &t) != nil {
		return nil
	}
	return &t
}

// Lines returns the trace as a tree, a line for each step.
func (t *Trace) Lines() []string {
	summary := t.Tool + "  " + duration(t.DurationMs)
	if t.Steps > 0 {
		summary += fmt.Sprintf("  %s, %s", Count(int(t.Steps), "interpreter step"), size(t.Memory))
	}
	lines := appendNodes([]string{summary}, t.tree().children, "")
	if t.LeftOut > 0 {
		lines = append(lines, fmt.Sprintf("and %s more", Count(t.LeftOut, "step")))
	}
	return lines
}

func appendNodes(lines []string, nodes []*node, indent string) []string {
	for i, n := range nodes {
		branch, below := "├─ ", "│  "
		if i == len(nodes)-1 {
			branch, below = "└─ ", "   "
		}
		lines = append(lines, indent+branch+n.label())
		lines = appendNodes(lines, n.children, indent+below)
	}
	return lines
}

// tree nests the steps by their keys.
func (t *Trace) tree() *node {
	root := &node{}
	for i := range t.Effects {
		n := root
		for part := range strings.FieldsFuncSeq(t.Effects[i].Key, func(r rune) bool { return r == '.' || r == '/' }) {
			n = n.child(part)
		}
		n.effect = &t.Effects[i]
	}
	root.sort()
	return root
}

func (n *node) child(at string) *node {
	for _, c := range n.children {
		if c.at == at {
			return c
		}
	}
	c := &node{at: at}
	n.children = append(n.children, c)
	return c
}

func (n *node) sort() {
	slices.SortFunc(n.children, func(a, b *node) int { return cmp.Compare(a.number(), b.number()) })
	for _, c := range n.children {
		c.sort()
	}
}

// number is the position of a step among its siblings; branches have numbers like steps.
func (n *node) number() int {
	number, err := strconv.Atoi(strings.TrimPrefix(n.at, "b"))
	if err != nil {
		return -1
	}
	return number
}

// instant are the kinds of steps whose duration is not shown.
var instant = []string{"log", "progress", "now", "caller", "workflow"}

// label is the line that describes a step.
func (n *node) label() string {
	if n.effect == nil {
		name := "parallel"
		if strings.HasPrefix(n.at, "b") {
			name = "branch " + strings.TrimPrefix(n.at, "b")
		}
		first, last := n.span()
		return name + "  " + duration(last-first)
	}
	e := n.effect
	text := strings.TrimSpace(e.Kind + " " + e.Name)
	if !slices.Contains(instant, e.Kind) {
		text += "  " + duration(e.DurationMs)
	}
	if e.Kind == "call" && e.Error == "" {
		text += "  " + size(int64(e.Bytes))
	}
	if e.Replayed {
		text += "  (done before)"
	}
	if e.Note != "" {
		text += "  (" + e.Note + ")"
	}
	if e.Error != "" {
		text += "  failed: " + e.Error
	}
	return text
}

// span returns the earliest beginning and the latest end of the steps inside.
func (n *node) span() (first, last float64) {
	for i, c := range n.children {
		from, to := c.span()
		if c.effect != nil {
			from, to = c.effect.StartMs, c.effect.StartMs+c.effect.DurationMs
		}
		if i == 0 {
			first = from
		}
		first, last = min(first, from), max(last, to)
	}
	return first, last
}

// duration prints milliseconds, with fewer decimals the longer they are.
func duration(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

func size(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}

// Count is a number with its noun, in the plural unless it is one.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
