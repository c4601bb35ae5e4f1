package conn_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"
	"github.com/vmcp-dev/vmcp/internal/wire"
)

// asks is a request of a backend to its client.
func asks(id, params string) *wire.Message {
	return &wire.Message{ID: json.RawMessage(id), Method: wire.CreateMessage, Params: json.RawMessage(params)}
}

func TestTableOfQuestions(t *testing.T) {
	table, of := conn.NewQuestions(), new(conn.Tally)
	ctx, cancel := context.WithCancel(t.Context())
	one, err := table.Add(of, asks(`1`, `{}`), func() {})
	if err != nil {
		t.Fatal(err)
	}
	two, err := table.Add(of, asks(`"1"`, `{}`), cancel)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Add(of, asks(`1`, `{}`), func() {}); err == nil {
		t.Error("the id of an open request was taken for another one")
	}
	if table.Withdraw(json.RawMessage(`"1"`)); ctx.Err() == nil || two.Answered() {
		t.Error("a request that was withdrawn is not cancelled, or counts as answered")
	}
	again, err := table.Add(of, asks(`"1"`, `{}`), func() {})
	if err != nil {
		t.Errorf("the id of a withdrawn request: %v", err)
	}
	if two.Done(); !again.Answered() {
		t.Error("the end of a withdrawn request ended another one with its id")
	}
	settled := make(chan bool)
	go func() {
		asked, err := table.Settled(t.Context())
		settled <- asked && err == nil
	}()
	if !one.Answered() {
		t.Error("an open request counts as withdrawn")
	}
	if n, _ := table.Undone(); n != 2 {
		t.Errorf("%d requests count, want the two whose responses are not sent", n)
	}
	one.Done()
	again.Done()
	<-settled
	if asked, err := table.Settled(t.Context()); asked || err != nil {
		t.Errorf("Settled of an empty table = %v, %v", asked, err)
	}
	table.Add(of, asks(`1`, `{}`), func() {})
	if _, err := table.Settled(ctx); err == nil {
		t.Error("Settled outlives its context")
	}
}

// TestQuestionsOfABackendAreBounded: of one client 128 fit, also while those before are withdrawn or their responses are
// not taken, and of large ones fewer. Those of another client fit beside them.
func TestQuestionsOfABackendAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name, params string
		want         int
	}{
		{"small", `{}`, 128},
		{"of a megabyte", fmt.Sprintf(`{"x":"%01000000d"}`, 0), 8},
		{"of nine megabytes", fmt.Sprintf(`{"x":"%09000000d"}`, 0), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, of := conn.NewQuestions(), new(conn.Tally)
			var last *conn.Question
			n := 0
			for ; ; n++ {
				id := fmt.Sprint(n)
				q, err := table.Add(of, asks(id, tt.params), func() {})
				if err != nil {
					break
				}
				if last = q; n%2 == 0 {
					table.Withdraw(json.RawMessage(id))
				} else {
					q.Answered()
				}
			}
			if n != tt.want {
				t.Errorf("%d fit, want %d", n, tt.want)
			}
			if _, err := table.Add(new(conn.Tally), asks(`"other"`, `{}`), func() {}); err != nil {
				t.Errorf("another client's: %v", err)
			}
			last.Done()
			if _, err := table.Add(of, asks(`"next"`, `{}`), func() {}); err != nil {
				t.Errorf("after one was done: %v", err)
			}
		})
	}
}
