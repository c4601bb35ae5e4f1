//go:build unix

package sqlstore_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/vmcp-dev/vmcp/script/durable"

	"github.com/vmcp-dev/vmcp/script"
	"github.com/vmcp-dev/vmcp/script/durable/runstest"
	"github.com/vmcp-dev/vmcp/script/durable/sqlstore"
)

// BenchmarkCall measures the writes of one call that may not be repeated: Begin, and Record of 300 bytes,
// in one run and in 16 concurrent ones. The table of docs/durability.md has its results.
func BenchmarkCall(b *testing.B) {
	for _, store := range []struct {
		name string
		open func(b *testing.B) durable.Store
	}{
		{"memory", func(*testing.B) durable.Store { return durable.NewMemory(benchOptions, nil) }},
		{"sqlite-power", func(b *testing.B) durable.Store { return benchSQLite(b, false, false) }},
		{"sqlite-process", func(b *testing.B) durable.Store { return benchSQLite(b, true, false) }},
		{"sqlite-process-encrypted", func(b *testing.B) durable.Store { return benchSQLite(b, true, true) }},
		{"postgres-power", func(b *testing.B) durable.Store { return benchPostgres(b, false) }},
		{"postgres-process", func(b *testing.B) durable.Store { return benchPostgres(b, true) }},
	} {
		for _, n := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", store.name, n), func(b *testing.B) { benchCalls(b, store.open(b), n) })
		}
	}
}

var benchOptions = durable.Options{MaxEntries: 1 << 30, MaxBytes: 1 << 50}

func benchSQLite(b *testing.B, process, encrypt bool) durable.Store {
	s, err := sqlstore.OpenSQLite(b.Context(), sqlstore.SQLiteOptions{Options: sqlstore.Options{Options: benchOptions, Encrypt: encrypt}, Path: filepath.Join(b.TempDir(), "runs.db"), Process: process})
	must(b, err)
	b.Cleanup(func() { s.Close() })
	return s
}

func benchPostgres(b *testing.B, process bool) durable.Store {
	server := runstest.StartDurable(b)
	s, err := sqlstore.OpenPostgres(b.Context(), sqlstore.PostgresOptions{Options: sqlstore.Options{Options: benchOptions, Ring: ring(b, "a"), Encrypt: true}, URL: server.URL(), Process: process})
	must(b, err)
	b.Cleanup(func() { s.Close() })
	return s
}

// callsOfOne is how many calls a run makes before the next one begins.
const callsOfOne = 100

func benchCalls(b *testing.B, s durable.Store, n int) {
	result := json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 250) + `"}]}`)
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range n {
		wg.Go(func() {
			for left := b.N / n; left > 0; left -= callsOfOne {
				l, err := s.Create(b.Context(), durable.Run{Tool: "x", Header: &header}, fmt.Sprint(i), nil)
				if err != nil {
					b.Error(err)
					return
				}
				for k := range min(left, callsOfOne) {
					e := script.Entry{Key: fmt.Sprint(k), Kind: "call", Name: "billing.charge", Args: json.RawMessage(`{"amount":7}`), Attempt: 1}
					if err := l.Begin(b.Context(), e); err != nil {
						b.Error(err)
						return
					}
					e.Result = result
					if err := l.Record(e); err != nil {
						b.Error(err)
						return
					}
				}
				if err := l.End(b.Context(), durable.Outcome{State: durable.Done}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkBesideLargeAnswers is BenchmarkCall in a database in which other runs have large answers, on which the cost of a
// call must not depend.
func BenchmarkBesideLargeAnswers(b *testing.B) {
	for _, size := range []int{300, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := benchSQLite(b, true, false)
			result, _ := json.Marshal(strings.Repeat("x", size))
			for range 20 {
				l, err := s.Create(b.Context(), durable.Run{Tool: "x", Header: &header}, "others", nil)
				must(b, err)
				for k := range 20 {
					must(b, l.Record(script.Entry{Key: fmt.Sprint(k), Kind: "call", Result: result}))
				}
				must(b, l.End(b.Context(), durable.Outcome{State: durable.Done}))
			}
			benchCalls(b, s, 1)
		})
	}
}
