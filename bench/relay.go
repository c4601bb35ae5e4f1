package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// sizes are the sizes of results, in bytes.
var sizes = []int{100, 10_000, 100_000, 1_000_000}

// leg is the cost of calls on one way. Times are in microseconds; those of processes are
// CPU time per call.
type leg struct {
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	PerSecond  float64 `json:"calls_per_second"`
	FrontCPU   float64 `json:"front_cpu_us"`
	BackendCPU float64 `json:"backend_cpu_us"`
	ClientCPU  float64 `json:"client_cpu_us"`
	Allocs     float64 `json:"front_allocs"`
	Bytes      float64 `json:"front_alloc_bytes"`
	Switches   float64 `json:"front_switches"` // voluntary context switches
}

// ratios are the figures of one way divided by the reverse proxy's; for Throughput the reverse
// proxy's is divided, so that less is better for all of them.
type ratios struct {
	P50        float64 `json:"p50"`
	P99        float64 `json:"p99"`
	CPU        float64 `json:"cpu"`
	Throughput float64 `json:"throughput"`
	// Spread is the least and the largest ratio of a round.
	Spread struct {
		P50 [2]float64 `json:"p50"`
		CPU [2]float64 `json:"cpu"`
	} `json:"spread"`
}

// cell is one row of the relay table.
type cell struct {
	Revision    string    `json:"revision"`
	Form        string    `json:"form"`
	Size        int       `json:"bytes"`
	Concurrency int       `json:"concurrency"`
	Legs        [ways]leg `json:"legs"` // by way; the zero leg: not measured
	Ratio       ratios    `json:"ratio"`
	// Others are the ratios of the other ways.
	Others [ways]ratios `json:"others,omitzero"`
}

func (c *cell) name() string {
	return fmt.Sprintf("%s %s %s c=%d", c.Revision, c.Form, bytesText(float64(c.Size)), c.Concurrency)
}

// relayPlan is the choice of cells to measure, and the duration.
type relayPlan struct {
	revisions, forms   []string
	sizes, concurrency []int
	rounds             int
	length             time.Duration // of one leg in one round
}

func (b *bench) plan() relayPlan {
	p := relayPlan{
		revisions: []string{legacy, modern}, forms: []string{"json", "sse"},
		sizes: sizes, concurrency: []int{1, 8, 64}, rounds: 5, length: 250 * time.Millisecond,
	}
	switch {
	case b.options.check:
		p.forms, p.sizes, p.length = []string{"json"}, []int{100, 10_000, 100_000}, 150*time.Millisecond
	case b.options.quick:
		p.sizes, p.rounds, p.length = []int{100, 100_000}, 3, 100*time.Millisecond
	}
	if b.options.length > 0 {
		p.length = b.options.length
	}
	return p
}

// relay compares a call of a backend's tool on all ways.
func (b *bench) relay(ctx context.Context) error {
	p := b.plan()
	for _, revision := range p.revisions {
		for _, form := range p.forms {
			for _, size := range p.sizes {
				for _, n := range p.concurrency {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					c := cell{Revision: revision, Form: form, Size: size, Concurrency: n}
					if !strings.Contains(c.name(), b.options.match) {
						continue
					}
					b.say("relay %s", c.name())
					if err := b.measureCell(&c, p); err != nil {
						return fmt.Errorf("relay %s: %w", c.name(), err)
					}
					b.report.Relay = append(b.report.Relay, c)
				}
			}
		}
	}
	b.relayTargets()
	return nil
}

// measureCell measures a cell: each round runs all ways, one after the other.
func (b *bench) measureCell(c *cell, p relayPlan) error {
	var crowds [ways]*crowd
	for way := range ways {
		if !b.site.has(way) {
			continue
		}
		g, err := gather(b.site.target(way, c.Revision), c.Concurrency, func(cl *client) request {
			return cl.call(answerTool(c.Form, c.Size), `{"text":"hello"}`, c.Size)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", wayNames[way], err)
		}
		defer g.close()
		if _, err := g.run(0, 20); err != nil { // warm up
			return fmt.Errorf("%s: %w", wayNames[way], err)
		}
		crowds[way] = g
	}
	var rounds [ways][]leg
	for range p.rounds {
		for way := range ways {
			if crowds[way] == nil {
				continue
			}
			l, err := b.measureLeg(way, crowds[way], p.length)
			if err != nil {
				return fmt.Errorf("%s: %w", wayNames[way], err)
			}
			rounds[way] = append(rounds[way], l)
		}
	}
	for way := range ways {
		c.Legs[way] = middle(rounds[way])
		c.Others[way] = compare(rounds[reverse], rounds[way])
	}
	c.Ratio = c.Others[relayed]
	return nil
}

// measureLeg runs one round on one way.
func (b *bench) measureLeg(way int, g *crowd, length time.Duration) (l leg, err error) {
	front := b.site.front(way)
	var before, after heap
	counts := front != nil && way != nginx // of its runtime
	if counts {
		if before, err = front.heapAfterLook(); err != nil {
			return l, err
		}
	}
	waited := front.switches()
	cpu := b.site.cpu(front)
	v, err := g.run(length, 10)
	if err != nil {
		return l, err
	}
	spent := b.site.cpu(front).minus(cpu)
	waited = front.switches() - waited
	if counts {
		if after, err = front.heap(); err != nil {
			return l, err
		}
	}
	n := float64(len(v.times))
	return leg{
		P50: v.quantile(0.5), P99: v.quantile(0.99), PerSecond: v.perSecond(),
		FrontCPU: micros(spent.front) / n, BackendCPU: micros(spent.backend) / n, ClientCPU: micros(spent.client) / n,
		Allocs: (after.mallocs - before.mallocs) / n, Bytes: (after.bytes - before.bytes) / n, Switches: waited / n,
	}, nil
}

// cpuTimes are the CPU times of the processes.
type cpuTimes struct{ front, backend, client time.Duration }

func (s *site) cpu(front *process) cpuTimes {
	t := cpuTimes{backend: cpuTime(s.backend.pid()), client: cpuTime(os.Getpid())}
	if front != nil {
		t.front = cpuTime(front.pid())
	}
	return t
}

func (t cpuTimes) minus(o cpuTimes) cpuTimes {
	return cpuTimes{t.front - o.front, t.backend - o.backend, t.client - o.client}
}

// middle is the median of each figure.
func middle(rounds []leg) leg {
	of := func(f func(leg) float64) float64 { return median(each(rounds, f)) }
	return leg{
		P50:        of(func(l leg) float64 { return l.P50 }),
		P99:        of(func(l leg) float64 { return l.P99 }),
		PerSecond:  of(func(l leg) float64 { return l.PerSecond }),
		FrontCPU:   of(func(l leg) float64 { return l.FrontCPU }),
		BackendCPU: of(func(l leg) float64 { return l.BackendCPU }),
		ClientCPU:  of(func(l leg) float64 { return l.ClientCPU }),
		Allocs:     of(func(l leg) float64 { return l.Allocs }),
		Bytes:      of(func(l leg) float64 { return l.Bytes }),
		Switches:   of(func(l leg) float64 { return l.Switches }),
	}
}

// compare returns the medians of the ratios of the rounds, each of two legs that ran one after the
// other.
func compare(base, ours []leg) (r ratios) {
	of := func(f func(base, ours leg) float64) (middle float64, spread [2]float64) {
		var all []float64
		for i := range ours {
			all = append(all, f(base[i], ours[i]))
		}
		if len(all) == 0 {
			return 0, spread
		}
		return median(all), [2]float64{slices.Min(all), slices.Max(all)}
	}
	r.P50, r.Spread.P50 = of(func(b, o leg) float64 { return part(o.P50, b.P50) })
	r.CPU, r.Spread.CPU = of(func(b, o leg) float64 { return part(o.FrontCPU, b.FrontCPU) })
	r.P99, _ = of(func(b, o leg) float64 { return part(o.P99, b.P99) })
	r.Throughput, _ = of(func(b, o leg) float64 { return part(b.PerSecond, o.PerSecond) })
	return r
}

// part is a/b, or 0 where b was not measured.
func part(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func each[T any](of []T, f func(T) float64) []float64 {
	out := make([]float64, len(of))
	for i, x := range of {
		out[i] = f(x)
	}
	return out
}

// The targets of relayed calls, for answers up to targetSize.
const (
	relayTarget      = 1.25
	throughputTarget = 1 / 0.8
	targetSize       = 100_000
)

// relayTargets makes figures with targets of the cells that have one.
func (b *bench) relayTargets() {
	for i := range b.report.Relay {
		c := &b.report.Relay[i]
		if c.Size > targetSize {
			continue
		}
		b.figure("relay", c.name()+", p50", c.Ratio.P50, "x", relayTarget)
		b.figure("relay", c.name()+", CPU per call", c.Ratio.CPU, "x", relayTarget)
		b.figure("relay", c.name()+", time per call at full load", c.Ratio.Throughput, "x", throughputTarget)
		b.relayLimits(c)
	}
}

// Limits of a relayed call that hardly depend on the machine: a call that fits a buffer
// makes 87 to 99 allocations and, with one caller, about six voluntary context switches.
// Beside other processes it makes a few more: what pools hold is collected more often.
const (
	maxAllocations = 105
	maxSwitches    = 10
	limitSize      = 10_000
)

// relayLimits makes figures with limits of the cells that have some.
func (b *bench) relayLimits(c *cell) {
	if c.Size > limitSize || c.Form != "json" || c.Revision != legacy {
		return
	}
	of := c.Legs[relayed]
	b.limited("relay", c.name()+", allocations per call", of.Allocs, maxAllocations)
	if c.Concurrency == 1 {
		b.limited("relay", c.name()+", voluntary context switches per call", of.Switches, maxSwitches)
	}
}
