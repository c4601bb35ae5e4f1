// Package metertest helps to test the meter: threads with a budget, hostile programs, and the tables of
// docs/limits.md.
package metertest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script/internal/meter"
)

// Ledger is a ledger without a parent.
type Ledger struct{ left meter.Amount }

// NewLedger returns a ledger with this amount.
func NewLedger(has meter.Amount) *Ledger { return &Ledger{has} }

// Grant takes what is wanted, or what is left.
func (l *Ledger) Grant(need, want meter.Amount) (meter.Amount, error) {
	switch {
	case need.Steps > l.left.Steps:
		return meter.Amount{}, &meter.LimitError{Limit: "steps", Value: strconv.FormatInt(l.left.Steps, 10)}
	case need.Memory > l.left.Memory:
		return meter.Amount{}, &meter.LimitError{Limit: "memory", Value: limits.Bytes(l.left.Memory).String()}
	}
	got := meter.Amount{Steps: min(want.Steps, l.left.Steps), Memory: min(want.Memory, l.left.Memory)}
	l.left = meter.Amount{Steps: l.left.Steps - got.Steps, Memory: l.left.Memory - got.Memory}
	return got, nil
}

// Left returns what was not taken.
func (l *Ledger) Left() meter.Amount { return l.left }

// Return returns an amount to the ledger.
func (l *Ledger) Return(unused meter.Amount) {
	l.left = meter.Amount{Steps: l.left.Steps + unused.Steps, Memory: l.left.Memory + unused.Memory}
}

// Thread returns a thread whose steps and memory are metered.
func Thread(has meter.Amount, callDepth int) *starlark.Thread {
	final := func(err error) bool {
		_, ok := err.(*meter.LimitError)
		return ok
	}
	t := &starlark.Thread{}
	meter.New(meter.Options{Ledger: NewLedger(has), CallDepth: callDepth, Final: final}).Attach(t, 0)
	return t
}

// Payload returns a JSON text of about n bytes, as tools return them.
func Payload(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"items":[`)
	for i := 0; b.Len() < n-2; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"item number %d","price":%d.25,"active":%v,"state":"open","tags":["red","blue"],"owner":{"login":"user%d","site_admin":false,"note":null}}`,
			i+1_000_000, i, i%1000, i%2 == 0, i%50)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// WriteTable replaces the text between two marks in a file.
func WriteTable(t *testing.T, path, mark, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := fmt.Sprintf("<!-- begin %s -->\n", mark), fmt.Sprintf("<!-- end %s -->", mark)
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s: no marks for %s", path, mark)
	}
	if err := os.WriteFile(path, []byte(before+begin+text+"\n"+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
