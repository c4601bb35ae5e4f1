package observe

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vmcp-dev/vmcp/script"
)

// Runs has the metrics of scripted tools. The tools that have series of their own in Calls have them here, the others
// are counted as tool other. Series of a tool that is removed, or no longer has its own, are deleted; a run of it that
// ends later counts as other.
type Runs struct {
	mu      sync.RWMutex    // write lock while series are deleted, read lock while they are made
	scripts map[string]bool // guarded by mu: scripted tools with series of their own
	tools   map[string]bool // guarded by mu: tools with effects counted by name, under all their names
	named   map[string]bool // guarded by mu: those of tools for which an effect was counted

	runs, steps, effects, limits, answers *prometheus.CounterVec
	seconds, effectSeconds, memory        *prometheus.HistogramVec
	suspensions, refusals                 *prometheus.CounterVec
	running                               prometheus.Gauge
	resumed, doubts                       *prometheus.CounterVec
	writes                                prometheus.Histogram
	writeErrors                           prometheus.Counter
	waits                                 prometheus.Histogram
}

func newRuns(r prometheus.Registerer) *Runs {
	seconds := []float64{.001, .005, .025, .1, .5, 1, 5, 30, 120, 600}
	m := &Runs{
		named: map[string]bool{},
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_runs_total", Help: "Runs of scripted tools that have ended, by outcome (" + Words() + ").",
		}, []string{"tool", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "vmcp_script_run_duration_seconds", Help: "Time of the last part of a run: from its beginning, or its last resumption, to its end. Parts that end with a question, a long sleep or a doubt are not counted.", Buckets: seconds,
		}, []string{"tool"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_steps_total", Help: "Interpreter steps.",
		}, []string{"tool"}),
		memory: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "vmcp_script_memory_bytes", Help: "Memory that one run has used.",
			Buckets: prometheus.ExponentialBuckets(1<<10, 8, 7),
		}, []string{"tool"}),
		effects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_effects_total", Help: "Effects of runs: kind is call, elicit, retry, sleep and so on; name is the tool of a call.",
		}, []string{"tool", "kind", "name", "outcome"}),
		effectSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "vmcp_script_effect_duration_seconds", Help: "Time of one effect.", Buckets: seconds,
		}, []string{"tool", "kind"}),
		limits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_limit_hits_total", Help: "Runs ended by a limit.",
		}, []string{"tool", "limit"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_elicitations_total", Help: "Answers of users by action (accept, decline, cancel).",
		}, []string{"tool", "action"}),
		suspensions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_suspensions_total", Help: "Times that a run was suspended with questions, to be resumed with the answers of the next request.",
		}, []string{"tool"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_script_runs_refused_total", Help: "Calls of scripted tools refused as busy: no room was left, and no effect had been executed.",
		}, []string{"tool"}),
		resumed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_runs_resumed_total", Help: "Times that a run was resumed, by cause: request, start of the process, wake (end of a sleep or of the time for an answer), answer, lease (expired), operator.",
		}, []string{"cause"}),
		doubts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vmcp_run_doubts_total", Help: "Calls with an unknown outcome, whose run waits for vmcp runs resolve.",
		}, []string{"tool"}),
		writes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vmcp_journal_write_seconds", Help: "Time of one write to the store of runs that a run waits for.", Buckets: []float64{.00001, .0001, .0005, .001, .0025, .005, .01, .05, .25, 1, 5},
		}),
		writeErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vmcp_journal_errors_total", Help: "Failed requests to the store of runs.",
		}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vmcp_script_queue_wait_seconds", Help: "Time that a run was queued because of limits.runs or limits.runsPerPrincipal; refused ones included.", Buckets: []float64{.001, .01, .1, 1, 5, 30},
		}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "vmcp_script_runs_running", Help: "Runs in progress."}),
	}
	r.MustRegister(m.runs, m.seconds, m.steps, m.memory, m.effects, m.effectSeconds, m.limits, m.answers, m.suspensions, m.refusals, m.running,
		m.resumed, m.doubts, m.writes, m.writeErrors, m.waits)
	return m
}

// Begin counts a part of a run that begins.
func (m *Runs) Begin() { m.running.Inc() }

// End counts a part of a run that ends or is suspended.
func (m *Runs) End() { m.running.Dec() }

// Resumed counts that a run was resumed.
func (m *Runs) Resumed(cause string) { m.resumed.WithLabelValues(cause).Inc() }

// Waited records the time that a run was queued.
func (m *Runs) Waited(took time.Duration) { m.waits.Observe(took.Seconds()) }

// setCatalog sets the labels of a new catalog, and deletes the series of what is not in it.
func (m *Runs) setCatalog(scripts, tools map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tool := range m.scripts {
		if !scripts[tool] {
			m.forget(tool)
		}
	}
	for name := range m.named {
		if !tools[name] {
			m.effects.DeletePartialMatch(prometheus.Labels{"name": name})
			delete(m.named, name)
		}
	}
	m.scripts, m.tools = scripts, tools
}

// forget deletes the series of a scripted tool. mu is held.
func (m *Runs) forget(tool string) {
	of := prometheus.Labels{"tool": tool}
	for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.runs, m.seconds, m.steps, m.memory, m.effects, m.effectSeconds, m.limits, m.answers, m.suspensions, m.refusals, m.doubts,
	} {
		vec.DeletePartialMatch(of)
	}
}

// label is the label of a scripted tool. mu is held.
func (m *Runs) label(tool string) string {
	if m.scripts[tool] {
		return tool
	}
	return other
}

// Doubts counts calls with an unknown outcome.
func (m *Runs) Doubts(tool string, n int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.doubts.WithLabelValues(m.label(tool)).Add(float64(n))
}

// Wrote records the duration of a write to the store of runs, negative if unknown, and whether it failed.
func (m *Runs) Wrote(took time.Duration, err error) {
	if took >= 0 {
		m.writes.Observe(took.Seconds())
	}
	if err != nil {
		m.writeErrors.Inc()
	}
}

// Steps counts the interpreter steps of a part of a run.
func (m *Runs) Steps(tool string, n uint64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.steps.WithLabelValues(m.label(tool)).Add(float64(n))
}

// Suspended counts that a run was suspended with questions.
func (m *Runs) Suspended(tool string) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.suspensions.WithLabelValues(m.label(tool)).Inc()
}

// Refused counts a call for whose run there was no room.
func (m *Runs) Refused(tool string) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.refusals.WithLabelValues(m.label(tool)).Inc()
}

// Over counts a run that has ended.
func (m *Runs) Over(tool string, o Outcome) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.runs.WithLabelValues(m.label(tool), o.String()).Inc()
}

// Took records the time and the memory of a whole run, and the limit that ended it, if any.
func (m *Runs) Took(tool string, took time.Duration, memory int64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	label := m.label(tool)
	m.seconds.WithLabelValues(label).Observe(took.Seconds())
	m.memory.WithLabelValues(label).Observe(float64(memory))
	var limit *script.LimitError
	if errors.As(err, &limit) {
		m.limits.WithLabelValues(label, limit.Limit).Inc()
	}
}

// Unknown is the name of an effect that calls a name no tool has.
const Unknown = "unknown"

// Effect counts one effect of a run. name is the tool of a call, Unknown if there is none, "" of other effects.
func (m *Runs) Effect(tool, kind, name string, o Outcome, took time.Duration) {
	m.mu.RLock()
	if m.tools[name] && !m.named[name] {
		m.mu.RUnlock()
		m.name(name)
		m.mu.RLock()
	}
	defer m.mu.RUnlock()
	if name != "" && name != Unknown && !m.tools[name] {
		name = other
	}
	label := m.label(tool)
	m.effects.WithLabelValues(label, kind, name, o.String()).Inc()
	m.effectSeconds.WithLabelValues(label, kind).Observe(took.Seconds())
}

// name notes that effects of a name were counted.
func (m *Runs) name(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tools[name] {
		m.named[name] = true
	}
}

// Answered counts the action of an answer.
func (m *Runs) Answered(tool, action string) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.answers.WithLabelValues(m.label(tool), action).Inc()
}
