package proxy

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vmcp-dev/vmcp/proxy/catalog"
	"github.com/vmcp-dev/vmcp/proxy/outcome"
	"github.com/vmcp-dev/vmcp/script"
)

// runMetrics count what scripted tools do.
type runMetrics struct {
	runs, steps, effects, limits, answers *prometheus.CounterVec
	seconds, effectSeconds, memory        *prometheus.HistogramVec
	suspensions                           *prometheus.CounterVec
	running                               prometheus.Gauge
}

func newRunMetrics(r *prometheus.Registry) *runMetrics {
	seconds := []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600}
	m := &runMetrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_runs_total", Help: "Runs of scripted tools that are over, by outcome (" + outcome.Words() + ").",
		}, []string{"tool", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "vmcp_script_run_duration_seconds", Help: "Time of one run, without the time that it waited for another request.", Buckets: seconds,
		}, []string{"tool"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_steps_total", Help: "Interpreter steps.",
		}, []string{"tool"}),
		memory: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "vmcp_script_memory_bytes", Help: "Memory that one run was charged for.",
			Buckets: prometheus.ExponentialBuckets(1<<10, 8, 7),
		}, []string{"tool"}),
		effects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_effects_total", Help: "Effects of runs: kind is call, elicit, retry, sleep and so on; name is the tool of a call.",
		}, []string{"tool", "kind", "name", "outcome"}),
		effectSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "vmcp_script_effect_duration_seconds", Help: "Time of one effect.", Buckets: seconds,
		}, []string{"tool", "kind"}),
		limits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_limit_hits_total", Help: "Runs that a limit ended.",
		}, []string{"tool", "limit"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_elicitations_total", Help: "Answers of users by action (accept, decline, cancel).",
		}, []string{"tool", "action"}),
		suspensions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_suspensions_total", Help: "Times that a run ended with questions, to go on with the answers of the next request.",
		}, []string{"tool"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "vmcp_script_runs_running", Help: "Runs at this moment."}),
	}
	r.MustRegister(m.runs, m.seconds, m.steps, m.memory, m.effects, m.effectSeconds, m.limits, m.answers, m.suspensions, m.running)
	return m
}

// effect counts one effect of a run. What the journal answered is not done again.
func (h *host) effect(e script.Event) {
	if e.Replayed {
		return
	}
	m := h.p.metrics.scripts
	m.effects.WithLabelValues(h.tool.Name, e.Kind, h.label(e), outcome.Of(e.Err).String()).Inc()
	m.effectSeconds.WithLabelValues(h.tool.Name, e.Kind).Observe(e.Duration.Seconds())
}

// label keeps the names of metrics to those of tools that exist.
func (h *host) label(e script.Event) string {
	if e.Kind != "call" {
		return ""
	}
	if h.catalog.Find(catalog.AnyTool(e.Name)) == nil {
		return "unknown"
	}
	return e.Name
}

// done counts a run, or the part of it up to a question. A run that goes on over its journal
// counts once, with the time of all its parts, when it is over.
func (h *host) done(stats script.Stats, o outcome.Outcome, err error) {
	m, name := h.p.metrics.scripts, h.tool.Name
	m.steps.WithLabelValues(name).Add(float64(stats.Steps))
	took := stats.Duration
	if h.parked != nil {
		took = time.Duration(h.parked.took.Add(int64(took)))
	}
	switch {
	case o == outcome.Suspended:
		m.suspensions.WithLabelValues(name).Inc()
		return
	case h.parked != nil && h.parked.over.Swap(true):
		return // the last request came again
	}
	m.runs.WithLabelValues(name, o.String()).Inc()
	m.seconds.WithLabelValues(name).Observe(took.Seconds())
	m.memory.WithLabelValues(name).Observe(float64(stats.Memory))
	var limit *script.LimitError
	if errors.As(err, &limit) {
		m.limits.WithLabelValues(name, limit.Limit).Inc()
	}
}

// forgotten returns what counts a run whose question nobody answered in time.
func (m *runMetrics) forgotten(c *parkedCall, tool string) func() {
	return func() {
		if !c.over.Swap(true) {
			m.runs.WithLabelValues(tool, outcome.Timeout.String()).Inc()
		}
	}
}
