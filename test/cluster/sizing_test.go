//go:build suites

package cluster

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/vmcp-dev/vmcp/script/durable/runstest"
)

// BenchmarkSizing measures the numbers for sizing in docs/scaling.md:
//
//	go test -tags suites ./test/cluster -run XXX -bench Sizing -benchtime 1x
//
// The memory is that of one replica after a garbage collection, divided by n.
func BenchmarkSizing(b *testing.B) {
	pg := runstest.Start(b)
	const n = 2000
	each := func(name string, make func(w *world, i int)) {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				w := newWorld(b, pg, clustered+fmt.Sprintf("clientSessions: {max: %d, perAddress: %[1]d}\n", 2*n))
				profiles := w.port()
				r := w.replicas[0]
				r.start("--pprof", profiles)
				r.awaitReady()
				make(w, n) // memory that is allocated once
				before, writes := r.memory(profiles), w.statements(pg)
				for i := range n {
					make(w, i)
				}
				b.ReportMetric(float64(r.memory(profiles)-before)/n/1024, "KiB/each")
				if sessions := r.bytes("vmcp_sessions"); strings.Contains(name, "session") && sessions < n {
					b.Fatalf("%d sessions are left", sessions)
				}
				b.ReportMetric(float64(w.statements(pg)-writes), "transactions")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
	each("idle session", func(w *world, _ int) { session(b, w.replicas[0].url()) })
	each("session that has called a backend with sessions", func(w *world, _ int) {
		c := session(b, w.replicas[0].url())
		if _, err := c.Call(b.Context(), "resources/read", `{"uri":"note://one"}`); err != nil {
			b.Fatal(err)
		}
	})
	each("session with a GET stream", func(w *world, _ int) { listen(b, w.replicas[0].url(), session(b, w.replicas[0].url()).Session()) })
	each("listen stream", func(w *world, _ int) { subscribe(b, w.replicas[0].url(), "note://one") })
}

// memory is the memory of the process after a garbage collection, in bytes.
func (r *replica) memory(profiles string) int64 {
	r.w.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	for range 2 {
		resp, err := http.Get("http://" + profiles + "/debug/pprof/heap?gc=1")
		if err != nil {
			r.w.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return r.bytes("go_memstats_heap_alloc_bytes") + r.bytes("go_memstats_stack_inuse_bytes")
}

func (r *replica) bytes(name string) int64 {
	resp, err := http.Get("http://" + r.addr + "/metrics")
	if err != nil {
		r.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(page)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int64(n)
		}
	}
	r.w.t.Fatalf("/metrics has no %s", name)
	return 0
}

// statements is the number of transactions of the database, by all its clients.
func (w *world) statements(pg *runstest.Server) (n int) {
	w.t.Helper()
	<-time.After(2 * time.Second) // its processes count late
	db, err := pgx.Connect(w.t.Context(), pg.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close(w.t.Context())
	if err := db.QueryRow(w.t.Context(), "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}
