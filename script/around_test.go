package script_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/builtins"
	"github.com/vmcp-dev/vmcp/script"
)

// lineup holds the effects of a run until no branch can continue, and releases the one with the greatest key.
type lineup struct {
	mu      sync.Mutex
	waiting map[string]chan struct{}
	idle    int // effects in progress while no branch computes; -1: one computes
	order   []string
	places  []string
}

func (l *lineup) around(ctx context.Context, a script.Attempt, perform func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	free := make(chan struct{})
	l.mu.Lock()
	l.waiting[a.Key] = free
	l.places = append(l.places, a.Pos.String())
	l.next()
	l.mu.Unlock()
	<-free
	return perform(ctx)
}

func (l *lineup) noteIdle(flying int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = flying
	l.next()
}

// next releases one effect when all in progress are held.
func (l *lineup) next() {
	if len(l.waiting) == 0 || len(l.waiting) != l.idle {
		return
	}
	l.idle = -1
	var last string
	for key := range l.waiting {
		last = max(last, key)
	}
	l.order = append(l.order, last)
	close(l.waiting[last])
	delete(l.waiting, last)
}

func TestAroundDecidesWhichEffectEndsFirst(t *testing.T) {
	const src = `
def one(n):
    sleep("1ms")
    return sleep("2ms")

def run(params):
    parallel(one, [1, 2, 3])
    return sleep("3ms")
`
	p, err := script.Compile(script.File{Name: "test.star", Source: []byte(src)}, script.Options{Builtins: builtins.All()})
	if err != nil {
		t.Fatal(err)
	}
	l := &lineup{waiting: map[string]chan struct{}{}, idle: -1}
	var events []string
	_, err = p.Run(t.Context(), script.RunOptions{Around: l.around, Idle: l.noteIdle, Places: true, Trace: func(e script.Event) {
		events = append(events, e.Key+" "+e.Pos.String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"0.b2.0", "0.b2.1", "0.b1.0", "0.b1.1", "0.b0.0", "0.b0.1", "1"}; !slices.Equal(l.order, want) {
		t.Errorf("the order is %q, want %q", l.order, want)
	}
	if want := "1 test.star:8:17"; events[len(events)-1] != want {
		t.Errorf("the last event is %q, want %q", events[len(events)-1], want)
	}
	if slices.Sort(l.places); l.places[0] != "test.star:3:10" {
		t.Errorf("places are %q", l.places)
	}
}
