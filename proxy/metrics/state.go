package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/edge"
)

// State is what there is at one moment, and what has been counted elsewhere.
type State struct {
	Backends  []Backend
	Edge      edge.Stats
	Listed    int    // tools that clients see
	Problems  int    // of the catalog
	Parked    int    // calls that wait for another request
	Dropped   uint64 // notifications that such calls did not keep
	Unwritten uint64 // lines of the audit
	Workers   int    // processes of isolated scripts

	Runs          map[string]int // kept runs by state, every state; nil: the store does not answer
	OldestWaiting time.Duration  // how long the run waits for an answer that has waited longest
}

// Backend is one of the backends.
type Backend struct {
	Name     string
	Ready    bool // clients see what it offers
	Tools    int
	Unpinned int // entries that are not as they are pinned
	backends.Stats
}

var (
	descUp       = prometheus.NewDesc("vmcp_backend_up", "1 while the backend is ready.", []string{"backend"}, nil)
	descTools    = prometheus.NewDesc("vmcp_backend_tools", "Tools the backend offers.", []string{"backend"}, nil)
	descSessions = prometheus.NewDesc("vmcp_sessions", "Open client sessions.", nil, nil)
	descListed   = prometheus.NewDesc("vmcp_tools_listed", "Tools that clients see.", nil, nil)
	descUnpinned = prometheus.NewDesc("vmcp_pin_violations", "Entries of the backend, its instructions included, that are not as they are pinned.", []string{"backend"}, nil)
	descProblems = prometheus.NewDesc("vmcp_catalog_problems", "Entries that were dropped or refused.", nil, nil)
	descParked   = prometheus.NewDesc("vmcp_parked_calls", "Calls that wait for an answer in another request.", nil, nil)
	descWorkers  = prometheus.NewDesc("vmcp_script_workers", "Worker processes of isolated scripts, with the one that is ready for the next run.", nil, nil)
	descRuns     = prometheus.NewDesc("vmcp_runs", "Runs of scripted tools in their store, by state. Processes that share a store show the same.", []string{"state"}, nil)
	descOldest   = prometheus.NewDesc("vmcp_runs_oldest_waiting_seconds", "How long the run waits for an answer that has waited longest; 0 for none.", nil, nil)
	descCalls    = prometheus.NewDesc("vmcp_backend_calls_total", "Calls to the backend.", []string{"backend"}, nil)
	descFailures = prometheus.NewDesc("vmcp_backend_failures_total", "Calls that failed on the way, not by the backend's answer.", []string{"backend"}, nil)
	descRedials  = prometheus.NewDesc("vmcp_backend_reconnects_total", "Times the backend was dialled again.", []string{"backend"}, nil)
	descLost     = prometheus.NewDesc("vmcp_backend_messages_dropped_total", "Messages of the backend to callers that were too slow; their calls failed.", []string{"backend"}, nil)
	descHeld     = prometheus.NewDesc("vmcp_stream_bytes", "Bytes that event streams hold for their clients.", nil, nil)
	descDropped  = prometheus.NewDesc("vmcp_stream_notifications_dropped_total", "Notifications outside of calls that clients were too slow or too far away for.", nil, nil)
	descBroken   = prometheus.NewDesc("vmcp_streams_broken_total", "Answers that were given up because their clients did not read them.", nil, nil)
	descEvicted  = prometheus.NewDesc("vmcp_streams_evicted_total", "Answers that no client came back for in time.", nil, nil)
	descBodies   = prometheus.NewDesc("vmcp_request_body_bytes", "Bytes of large request bodies that are held.", nil, nil)
	descUnsaid   = prometheus.NewDesc("vmcp_audit_dropped_total", "Lines of the audit that could not be written.", nil, nil)
	descEnded    = prometheus.NewDesc("vmcp_sessions_evicted_total", "Client sessions that ended for want of room (full), of which nothing but an initialize came (unused), for another client's place at a backend (pressure), or after sessionIdle.client (idle).", []string{"reason"}, nil)
	descTurned   = prometheus.NewDesc("vmcp_sessions_refused_total", "Clients that found no room for a session.", nil, nil)
	descConns    = prometheus.NewDesc("vmcp_backend_connections", "Open connections to the backend: child processes, and over HTTP streams.", []string{"backend"}, nil)
	descPrivate  = prometheus.NewDesc("vmcp_backend_sessions", "Sessions with the backend that belong to one client each.", []string{"backend"}, nil)
	descRefused  = prometheus.NewDesc("vmcp_backend_refused_total", "Calls for which no connection or session with the backend was left.", []string{"backend"}, nil)
)

// A collector reads the state when the page is asked for.
type collector func() State

func (state collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(state, ch) }

func (state collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	s := state()
	for _, b := range s.Backends {
		up := 0.0
		if b.Ready {
			up = 1
		}
		gauge(descUp, up, b.Name)
		gauge(descTools, float64(b.Tools), b.Name)
		gauge(descUnpinned, float64(b.Unpinned), b.Name)
		counter(descCalls, b.Calls, b.Name)
		counter(descFailures, b.Failures, b.Name)
		counter(descRedials, b.Reconnects, b.Name)
		gauge(descConns, float64(b.Connections), b.Name)
		counter(descLost, b.Stats.Dropped, b.Name)
		gauge(descPrivate, float64(b.Sessions), b.Name)
		counter(descRefused, b.Refused, b.Name)
	}
	for state, n := range s.Runs {
		gauge(descRuns, float64(n), state)
	}
	if s.Runs != nil {
		gauge(descOldest, s.OldestWaiting.Seconds())
	}
	counter(descEnded, s.Edge.Evicted, "full")
	counter(descEnded, s.Edge.Unused, "unused")
	counter(descEnded, s.Edge.Pressed, "pressure")
	counter(descEnded, s.Edge.Expired, "idle")
	counter(descUnsaid, s.Unwritten)
	counter(descTurned, s.Edge.Refused)
	gauge(descHeld, float64(s.Edge.StreamBytes))
	counter(descDropped, s.Edge.Dropped+s.Dropped)
	counter(descBroken, s.Edge.Broken)
	counter(descEvicted, s.Edge.EvictedStreams)
	gauge(descBodies, float64(s.Edge.BodyBytes))
	gauge(descSessions, float64(s.Edge.Sessions))
	gauge(descListed, float64(s.Listed))
	gauge(descProblems, float64(s.Problems))
	gauge(descParked, float64(s.Parked))
	gauge(descWorkers, float64(s.Workers))
}
