package runs

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmcp-dev/vmcp/internal/jsonscan"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// at are the Terms of a call of a principal.
func at(who string, more ...string) Terms {
	parts := make([][]byte, len(more))
	for i, m := range more {
		parts[i] = []byte(m)
	}
	return Terms{Principal: who, Binding: func() []byte { return Binding(who, "tools/call", parts...) }, For: 10 * time.Minute}
}

func spawn(f func()) bool { go f(); return true }

// TestStateIsBound: a state is valid for its binding, once, and for a time.
func TestStateIsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewSuspended(spawn)
		defer table.Close()
		ann := at("ann", "t", `{"a":1}`)
		var gaveUp error
		live := &SuspendedCall{cancel: func(err error) { gaveUp = err }}
		state, err := table.put(ann, live)
		if err != nil {
			t.Fatal(err)
		}
		sealed := json.RawMessage(jsonscan.Quote(state))
		for name, p := range map[string]Terms{
			"somebody else":   at("bob", "t", `{"a":1}`),
			"other arguments": at("ann", "t", `{"a":2}`),
			"another tool":    at("ann", "u", `{"a":1}`),
		} {
			if _, ok := table.Resume(sealed, p.Binding()); ok || table.Has(sealed, p.Binding()) {
				t.Errorf("%s takes the state", name)
			}
		}
		if !table.Has(sealed, ann.Binding()) {
			t.Error("its owner's state is not known")
		}
		if c, ok := table.Resume(sealed, ann.Binding()); !ok || c != live {
			t.Error("its owner cannot take the state")
		}
		if _, ok := table.Resume(sealed, ann.Binding()); ok {
			t.Error("it is taken a second time")
		}
		state, _ = table.put(ann, live)
		time.Sleep(ann.For + time.Second)
		synctest.Wait()
		if _, ok := table.Resume(json.RawMessage(jsonscan.Quote(state)), ann.Binding()); ok || gaveUp == nil {
			t.Errorf("after %v it is taken: %v, the call was given up with %v", ann.For, ok, gaveUp)
		}
	})
}

// TestHolder: a state of what is in memory names the replica for the others, and opens there.
func TestHolder(t *testing.T) {
	ring, err := durable.NewSeal([]durable.Key{{ID: "k", Secret: make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := NewSuspended(spawn), NewSuspended(spawn)
	for name, table := range map[string]*Table{"A": a, "B": b} {
		table.Use(ring)
		table.At(name)
		defer table.Close()
	}
	ann := at("ann")
	live, err := a.put(ann, &SuspendedCall{cancel: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what, state, binding string
		holder               string // to b
		opens                bool   // at b
	}{
		{"a call", live, "", "A", false},
		{"a run that is not kept", a.Seal(Never, "r", ann.Binding()), "", "A", false},
		{"a run", a.Seal(SuspendedRun, "r", ann.Binding()), "", "", true},
		{"a call of its own", b.Seal(Pending, "h", ann.Binding()), "", "", true},
		{"somebody else's call", live, "other", "", false},
		{"nonsense", live[1:], "", "", false},
	} {
		text, binding := json.RawMessage(jsonscan.Quote(tt.state)), ann.Binding()
		if tt.binding != "" {
			binding = []byte(tt.binding)
		}
		_, _, ok := b.Open(text, binding)
		if got := b.Holder(text, binding); got != tt.holder || ok != tt.opens {
			t.Errorf("%s: the holder is %q, it opens: %v; want %q, %v", tt.what, got, ok, tt.holder, tt.opens)
		}
	}
	if _, ok := b.Resume(json.RawMessage(jsonscan.Quote(live)), ann.Binding()); ok {
		t.Error("another replica takes the call")
	}
	if _, ok := a.Resume(json.RawMessage(jsonscan.Quote(live)), ann.Binding()); !ok {
		t.Error("its replica does not take the call")
	}
}

// TestBindingPartsAreApart: parts of a binding cannot be shifted.
func TestBindingPartsAreApart(t *testing.T) {
	if string(Binding("a\x00tools/call", "x")) == string(Binding("a", "tools/call\x00x")) {
		t.Error("a principal with a NUL is taken for another principal and method")
	}
	if string(Binding("a", "m", []byte(`"n"`), nil)) == string(Binding("a", "m", nil, []byte(`"n"`))) {
		t.Error("a name is taken for a uri")
	}
}
