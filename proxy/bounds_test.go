package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// TestTasksAreBounded: the oldest are forgotten, and ids of any length are not kept.
func TestTasksAreBounded(t *testing.T) {
	p := &Proxy{}
	x := &exchange{client: &edge.Client{}}
	note := func(id string) {
		p.noteTask(x, &catalog.Entry{}, json.RawMessage(fmt.Sprintf(`{"taskId":%q}`, id)))
	}
	for i := range taskLimit + 100 {
		note(fmt.Sprint("t", i))
	}
	note(strings.Repeat("x", taskIDBytes+1))
	if n := len(p.tasks.byID); n != taskLimit || len(p.tasks.order) != taskLimit {
		t.Errorf("%d tasks are remembered, want %d", n, taskLimit)
	}
	if _, ok := p.tasks.byID["t99"]; ok {
		t.Error("one of the oldest is still there")
	}
}

// nowhere drops every frame.
type nowhere struct{}

func (nowhere) Send([]byte)    {}
func (nowhere) Offer([]byte)   {}
func (nowhere) Request([]byte) {}
