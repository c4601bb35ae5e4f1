package proxy

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vmcp-dev/vmcp/script"
)

// runMetrics count what scripted tools do.
type runMetrics struct {
	runs, steps, effects, limits, answers *prometheus.CounterVec
	seconds, effectSeconds, memory        *prometheus.HistogramVec
	running                               prometheus.Gauge
}

func newRunMetrics(r *prometheus.Registry) *runMetrics {
	seconds := []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600}
	m := &runMetrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_runs_total", Help: "Runs of scripted tools by outcome (ok, error, limit, suspended, cancelled).",
		}, []string{"tool", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "vmcp_script_run_duration_seconds", Help: "Time of one run.", Buckets: seconds,
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
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "vmcp_script_runs_running", Help: "Runs at this moment."}),
	}
	r.MustRegister(m.runs, m.seconds, m.steps, m.memory, m.effects, m.effectSeconds, m.limits, m.answers, m.running)
	return m
}

// effect counts one effect of a run. What the journal answered is not done again.
func (h *host) effect(e script.Event) {
	if e.Replayed {
		return
	}
	m, outcome := h.p.metrics.scripts, "ok"
	var suspended *script.Suspended
	switch {
	case errors.As(e.Err, &suspended):
		outcome = "suspended"
	case e.Err != nil:
		outcome = "error"
	}
	m.effects.WithLabelValues(h.tool.name, e.Kind, h.label(e), outcome).Inc()
	m.effectSeconds.WithLabelValues(h.tool.name, e.Kind).Observe(e.Duration.Seconds())
}

// label keeps the names of metrics to those of tools that exist.
func (h *host) label(e script.Event) string {
	if e.Kind != "call" {
		return ""
	}
	if h.catalog.anyTool(e.Name) == nil {
		return "unknown"
	}
	return e.Name
}

// done counts a run.
func (h *host) done(stats script.Stats, err error) {
	m, name := h.p.metrics.scripts, h.tool.name
	m.runs.WithLabelValues(name, h.outcome(err)).Inc()
	m.seconds.WithLabelValues(name).Observe(stats.Duration.Seconds())
	m.steps.WithLabelValues(name).Add(float64(stats.Steps))
	m.memory.WithLabelValues(name).Observe(float64(stats.Memory))
	var limit *script.LimitError
	if errors.As(err, &limit) {
		m.limits.WithLabelValues(name, limit.Limit).Inc()
	}
}

func (h *host) outcome(err error) string {
	var limit *script.LimitError
	var suspended *script.Suspended
	var cancelled *script.Cancelled
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &limit):
		return "limit"
	case errors.As(err, &suspended):
		return "suspended"
	case errors.As(err, &cancelled):
		return "cancelled"
	}
	return "error"
}
