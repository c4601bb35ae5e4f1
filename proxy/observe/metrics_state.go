package observe

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vmcp-dev/vmcp/backends"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/proxy/status"
)

// State is the state at one moment, and counters of other packages.
type State struct {
	Backends  []Backend
	Edge      edge.Stats
	Listed    int    // tools that clients see
	Problems  int    // of the catalog
	Suspended int    // suspended calls
	Dropped   uint64 // notifications that such calls did not keep
	Unwritten uint64 // audit events that could not be written
	Workers   int    // processes of isolated scripts
	Waiting   int    // queued runs
	Draining  bool   // the process is shutting down

	Version string
	Server  *status.Server  // nil: not known
	Applied *status.Applied // the configuration

	Replicas *Replicas // nil: without a cluster

	Runs          map[string]int   // kept runs by state, every state; nil: the store does not answer
	OldestWaiting time.Duration    // the longest time that a run has waited for an answer
	RunsBytes     int64            // of kept runs in memory
	RunsForgotten map[string]int64 // those that were removed for want of memory, by state
}

// Backend is the state of one backend.
type Backend struct {
	Name     string
	Ready    bool // its entries are in the catalog
	Tools    int
	Unpinned int // entries that differ from their pins
	backends.Stats
}

var (
	descUp         = prometheus.NewDesc("vmcp_backend_up", "1 while the backend is ready.", []string{"backend"}, nil)
	descTools      = prometheus.NewDesc("vmcp_backend_tools", "Tools the backend offers.", []string{"backend"}, nil)
	descSessions   = prometheus.NewDesc("vmcp_sessions", "Open client sessions.", nil, nil)
	descListed     = prometheus.NewDesc("vmcp_tools_listed", "Tools that clients see.", nil, nil)
	descUnpinned   = prometheus.NewDesc("vmcp_pin_violations", "Entries of the backend, and its instructions, that differ from their pins.", []string{"backend"}, nil)
	descProblems   = prometheus.NewDesc("vmcp_catalog_problems", "Entries that were dropped or refused.", nil, nil)
	descSuspended  = prometheus.NewDesc("vmcp_parked_calls", "Suspended calls, which wait for an answer in another request.", nil, nil)
	descWorkers    = prometheus.NewDesc("vmcp_script_workers", "Worker processes of isolated scripts, with those that are ready for the next runs.", nil, nil)
	descRuns       = prometheus.NewDesc("vmcp_runs", "Runs of scripted tools in their store, by state. Processes that share a store show the same.", []string{"state"}, nil)
	descOldest     = prometheus.NewDesc("vmcp_runs_oldest_waiting_seconds", "The longest time that a run has waited for an answer; 0 for none.", nil, nil)
	descKept       = prometheus.NewDesc("vmcp_runs_kept_bytes", "Memory of the runs of scripted tools that are kept in memory and not executed; 0 with a database.", nil, nil)
	descForgotten  = prometheus.NewDesc("vmcp_runs_forgotten_total", "Runs of scripted tools that were removed from memory for want of room, by the state in which they were. Those that had not ended were given up.", []string{"state"}, nil)
	descCalls      = prometheus.NewDesc("vmcp_backend_calls_total", "Calls to the backend.", []string{"backend"}, nil)
	descFailures   = prometheus.NewDesc("vmcp_backend_failures_total", "Calls without a response of the backend.", []string{"backend"}, nil)
	descRedials    = prometheus.NewDesc("vmcp_backend_reconnects_total", "Times the backend was dialled again.", []string{"backend"}, nil)
	descLost       = prometheus.NewDesc("vmcp_backend_messages_dropped_total", "Messages of the backend to callers that were too slow; their calls failed.", []string{"backend"}, nil)
	descHeld       = prometheus.NewDesc("vmcp_stream_bytes", "Bytes buffered in event streams.", nil, nil)
	descDropped    = prometheus.NewDesc("vmcp_stream_notifications_dropped_total", "Notifications outside of calls that were dropped because their clients did not read them in time.", nil, nil)
	descBroken     = prometheus.NewDesc("vmcp_streams_broken_total", "Responses dropped because their clients did not read them.", nil, nil)
	descEvicted    = prometheus.NewDesc("vmcp_streams_evicted_total", "Interrupted responses that no client resumed in time.", nil, nil)
	descBodies     = prometheus.NewDesc("vmcp_request_body_bytes", "Bytes of large request bodies in memory.", nil, nil)
	descUnsaid     = prometheus.NewDesc("vmcp_audit_dropped_total", "Audit events that could not be written.", nil, nil)
	descEnded      = prometheus.NewDesc("vmcp_sessions_evicted_total", "Client sessions that ended for want of room (full), without a message after initialize (unused), for another client's place at a backend (pressure), or after sessionIdle.client (idle).", []string{"reason"}, nil)
	descTurned     = prometheus.NewDesc("vmcp_sessions_refused_total", "Initialize requests refused because there was no room for a session.", nil, nil)
	descConns      = prometheus.NewDesc("vmcp_backend_connections", "Open connections to the backend: child processes, and over HTTP streams.", []string{"backend"}, nil)
	descPrivate    = prometheus.NewDesc("vmcp_backend_sessions", "Sessions with the backend that belong to one client each.", []string{"backend"}, nil)
	descDraining   = prometheus.NewDesc("vmcp_draining", "1 while the process is shutting down: /readyz answers 503, and what is running may end.", nil, nil)
	descBuild      = prometheus.NewDesc("vmcp_build_info", "Always 1; the labels say what was built.", []string{"version", "commit", "goversion"}, nil)
	descConfig     = prometheus.NewDesc("vmcp_config_info", "Always 1; hash is that of the configuration that is served, with the scripts and libraries that it names. Replicas with equal configurations have equal hashes.", []string{"hash"}, nil)
	descReplicas   = prometheus.NewDesc("vmcp_cluster_replicas", "Replicas of the cluster that are alive, as this one sees them.", nil, nil)
	descConfigs    = prometheus.NewDesc("vmcp_cluster_configs", "Different configurations that the replicas serve, by their hashes; more than 1 while a rollout is in progress, or has failed.", nil, nil)
	descGeneration = prometheus.NewDesc("vmcp_config_generation", "How many configurations this process has applied.", nil, nil)
	descReloaded   = prometheus.NewDesc(Reloaded, ReloadedHelp, nil, nil)
	descReloadTime = prometheus.NewDesc("vmcp_config_last_reload_timestamp_seconds", "When a configuration was last applied or refused.", nil, nil)
	descWaiting    = prometheus.NewDesc("vmcp_script_runs_waiting", "Runs of scripted tools that are queued because of limits.runs or limits.runsPerPrincipal.", nil, nil)
	descCancels    = prometheus.NewDesc("vmcp_backend_cancelled_total", "Calls cancelled before the backend had answered.", []string{"backend"}, nil)
	descQueued     = prometheus.NewDesc("vmcp_backend_connections_waiting", "Calls that are queued for a connection to the backend.", []string{"backend"}, nil)
	descBreaker    = prometheus.NewDesc("vmcp_backend_breaker_state", "State of the circuit breaker: 0 closed, 1 half open (the next call tries), 2 open; 0 without one.", []string{"backend"}, nil)
	descRefused    = prometheus.NewDesc("vmcp_backend_refused_total", "Calls refused because no connection or session with the backend was left.", []string{"backend"}, nil)
)

// ReloadedHelp is the help of a metric of each endpoint. A process with several endpoints has the metric for all of
// them together, too; Prometheus requires the same help.
const (
	Reloaded     = "vmcp_config_last_reload_successful"
	ReloadedHelp = "1 when the last version of the configuration is served, 0 when it was refused and the previous one is still served."
)

// collectRuns collects what is known of kept runs.
func (s *State) collectRuns(gauge func(*prometheus.Desc, float64, ...string), counter func(*prometheus.Desc, uint64, ...string)) {
	for state, n := range s.Runs {
		gauge(descRuns, float64(n), state)
	}
	if s.Runs != nil {
		gauge(descOldest, s.OldestWaiting.Seconds())
		gauge(descKept, float64(s.RunsBytes))
	}
	for state, n := range s.RunsForgotten {
		counter(descForgotten, uint64(n), state)
	}
}

// A collector collects the state at each scrape.
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
		gauge(descUp, oneIf(b.Ready), b.Name)
		gauge(descTools, float64(b.Tools), b.Name)
		gauge(descUnpinned, float64(b.Unpinned), b.Name)
		counter(descCalls, b.Calls, b.Name)
		counter(descFailures, b.Failures, b.Name)
		counter(descRedials, b.Reconnects, b.Name)
		gauge(descConns, float64(b.Connections), b.Name)
		counter(descLost, b.Stats.Dropped, b.Name)
		gauge(descPrivate, float64(b.Sessions), b.Name)
		counter(descRefused, b.Refused, b.Name)
		counter(descCancels, b.Cancelled, b.Name)
		gauge(descQueued, float64(b.Waiting), b.Name)
		gauge(descBreaker, float64(b.Breaker), b.Name)
	}
	s.collectRuns(gauge, counter)
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
	gauge(descSuspended, float64(s.Suspended))
	gauge(descWorkers, float64(s.Workers))
	gauge(descWaiting, float64(s.Waiting))
	gauge(descDraining, oneIf(s.Draining))
	commit := ""
	if s.Server != nil {
		commit = s.Server.Commit
	}
	gauge(descBuild, 1, s.Version, commit, runtime.Version())
	if s.Replicas != nil {
		gauge(descReplicas, float64(s.Replicas.Live))
		gauge(descConfigs, float64(s.Replicas.Configs))
	}
	configuration(s.Applied, gauge)
}

// configuration shows which configuration is served. A new hash replaces the series of the previous one.
func configuration(applied *status.Applied, gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	c, attempt := applied.Config(), applied.Attempt()
	if c.Generation > 0 {
		gauge(descConfig, 1, c.Hash)
	}
	gauge(descGeneration, float64(c.Generation))
	gauge(descReloaded, oneIf(!attempt.IsZero() && c.Error == ""))
	if !attempt.IsZero() {
		gauge(descReloadTime, float64(attempt.UnixMilli())/1000)
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
