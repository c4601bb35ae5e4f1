package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vmcp-dev/vmcp/config/kube/object"
	"github.com/vmcp-dev/vmcp/internal/display"
)

// maxNote bounds the note of an event, in bytes: the API server refuses longer ones.
const maxNote = 1024

var eventsOf = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}

// A transition is a change of a condition's status.
type transition struct {
	kind         string // Warning or Normal
	reason, note string
}

// transitions returns the conditions that became False (Warning), and those that became True after False (Normal).
func transitions(before, now object.Status) (all []transition) {
	for _, c := range now.Conditions {
		was := before.Condition(c.Type).Status
		switch {
		case c.Status == object.False && was != object.False:
			all = append(all, transition{"Warning", c.Reason, note(c)})
		case c.Status == object.True && was == object.False:
			all = append(all, transition{"Normal", c.Reason, note(c)})
		}
	}
	return all
}

func note(c object.Condition) string {
	return display.ClipText(fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message), maxNote)
}

// prefixOf is the generateName of events about an object.
func prefixOf(name string) string { return strings.TrimRight(name[:min(len(name), 200)], ".-") + "-" }

// writeEvents writes an event for each transition. A failed write is logged and not retried: the status has the same content.
func (c *Client) writeEvents(ctx context.Context, o target, all []transition, instance string) {
	for _, t := range all {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "events.k8s.io/v1", "kind": "Event",
			"metadata":            map[string]any{"generateName": prefixOf(o.name), "namespace": c.Namespace},
			"eventTime":           time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
			"reportingController": "vmcp.dev/vmcp", "reportingInstance": instance,
			"action": "Configure", "reason": t.reason, "type": t.kind, "note": t.note,
			"regarding": map[string]any{"apiVersion": o.apiVersion(), "kind": o.kind, "namespace": c.Namespace, "name": o.name, "uid": o.uid},
		}}
		if _, err := c.in(eventsOf).Create(ctx, u, metav1.CreateOptions{}); err != nil {
			c.log.Info("event not written", "kind", o.kind, "name", o.name, "reason", t.reason, "err", err)
		}
	}
}
