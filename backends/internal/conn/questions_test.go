package conn_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/vmcp-dev/vmcp/backends/internal/conn"
)

func TestTableOfQuestions(t *testing.T) {
	table := conn.NewQuestions()
	one, two := json.RawMessage(`1`), json.RawMessage(`"1"`)
	ctx, cancel := context.WithCancel(t.Context())
	if !table.Add(one, func() {}, 2) || !table.Add(two, cancel, 2) || table.Add(json.RawMessage(`3`), nil, 2) {
		t.Error("two requests fit, and a third one does not")
	}
	if table.Withdraw(two); ctx.Err() == nil || table.Answered(two) {
		t.Error("a request that was withdrawn is not cancelled, or counts as answered")
	}
	settled := make(chan bool)
	go func() {
		asked, err := table.Settled(t.Context())
		settled <- asked && err == nil
	}()
	if !table.Answered(one) {
		t.Error("an open request counts as withdrawn")
	}
	<-settled
	if asked, err := table.Settled(t.Context()); asked || err != nil {
		t.Errorf("Settled of an empty table = %v, %v", asked, err)
	}
	table.Add(one, func() {}, 2)
	if _, err := table.Settled(ctx); err == nil {
		t.Error("Settled outlives its context")
	}
}
