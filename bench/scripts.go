package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// subject is one request to measure on one way.
type subject struct {
	target target
	calls  int // calls of the request that are counted as one
	setup  func(*client) request
}

// timed are the times of one subject, in microseconds.
type timed struct{ p50, cpu float64 }

// inTurns measures subjects alternately, round by round, on one connection each.
// CPU time is that of vmcp.
func (b *bench) inTurns(rounds, atLeast int, length time.Duration, subjects ...subject) ([]timed, error) {
	crowds := make([]*crowd, len(subjects))
	for i, s := range subjects {
		g, err := gather(s.target, 1, s.setup)
		if err == nil {
			defer g.close()
			_, err = g.run(0, min(atLeast, 10))
		}
		if err != nil {
			return nil, err
		}
		crowds[i] = g
	}
	p50s, cpus := make([][]float64, len(subjects)), make([][]float64, len(subjects))
	for range rounds {
		for i, s := range subjects {
			before := cpuTime(b.site.vmcp.pid())
			v, err := crowds[i].run(length, atLeast)
			if err != nil {
				return nil, err
			}
			spent := cpuTime(b.site.vmcp.pid()) - before
			n := float64(len(v.times)) / float64(s.calls)
			p50s[i] = append(p50s[i], v.quantile(0.5)*float64(s.calls))
			cpus[i] = append(cpus[i], micros(spent)/n)
		}
	}
	out := make([]timed, len(subjects))
	for i := range subjects {
		out[i] = timed{median(p50s[i]), median(cpus[i])}
	}
	return out, nil
}

// rounds is the number of rounds of the parts other than the relay table.
func (b *bench) rounds() int {
	if b.options.quick {
		return 3
	}
	return 5
}

// calling returns the setup of a call of a tool.
func calling(tool, arguments string, size int) func(*client) request {
	return func(c *client) request { return c.call(tool, arguments, size) }
}

// scripts compares scripted tools with the same calls made by a client.
func (b *bench) scripts(ctx context.Context) error {
	parts := []func() error{b.sequence, b.parallel, b.reading, b.durable, b.largeResults}
	if b.options.check {
		parts = parts[:3] // the others have no target
	}
	for _, f := range parts {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := f(); err != nil {
			return fmt.Errorf("scripts: %w", err)
		}
	}
	return nil
}

// scripted is the target of scripted tools.
func (b *bench) scripted() target {
	return target{url: b.site.vmcp.base + "/mcp", revision: legacy}
}

// sequence compares a script of three calls with three calls of a client.
func (b *bench) sequence() error {
	b.say("scripts: three calls in sequence")
	call := calling("json_100", `{"text":"hello"}`, 100)
	t, err := b.inTurns(b.rounds(), 10, 200*time.Millisecond,
		subject{b.site.target(direct, legacy), 3, call},
		subject{b.site.target(reverse, legacy), 3, call},
		subject{b.site.target(relayed, legacy), 3, call},
		subject{b.scripted(), 1, calling("three", "{}", 0)},
		subject{b.scripted(), 1, calling("nothing", "{}", 0)},
		subject{b.scripted(), 1, func(c *client) request { return c.prepare("ping", "{}") }},
	)
	if err != nil {
		return err
	}
	const part = "scripts"
	b.figure(part, "3 direct calls of a client, p50", t[0].p50, "us", 0)
	b.figure(part, "3 calls of a client through the reverse proxy, p50", t[1].p50, "us", 0)
	b.figure(part, "3 calls of a client through vmcp, p50", t[2].p50, "us", 0)
	// The part of a relayed call without the request from the client to the proxy, which is that of a ping.
	backend := t[2].p50 - 3*t[5].p50
	b.figure(part, "1 call of a script that calls 3 tools, p50", t[3].p50, "us", 1.1*backend+100)
	b.figure(part, "3 calls of a client through vmcp, CPU of vmcp", t[2].cpu, "us", 0)
	b.figure(part, "1 call of a script that calls 3 tools, CPU of vmcp", t[3].cpu, "us", 0)
	b.figure(part, "1 call of a script that calls nothing, p50", t[4].p50, "us", 0)
	b.figure(part, "ping, p50", t[5].p50, "us", 0)
	run := t[4].cpu - t[5].cpu
	b.figure(part, "CPU of a run that calls nothing beyond that of a ping", run, "us", 0)
	b.figure(part, "the same, against the CPU of a relayed call", 3*run/t[2].cpu, "x", startTarget)
	return nil
}

const (
	startTarget    = 0.35 // of a relayed call's CPU, to start a run
	parallelTarget = 1.2
	parallelWidth  = 10 // the default of max_concurrency
)

// parallel measures concurrent calls of a tool that waits.
func (b *bench) parallel() error {
	for _, n := range []int{10, 100, 1000} {
		if n == 1000 && (b.options.quick || b.options.check) {
			continue
		}
		b.say("scripts: %d calls side by side", n)
		rounds := b.rounds()
		if n == 1000 {
			rounds = 1
		}
		t, err := b.inTurns(rounds, 1, 0, subject{b.scripted(), 1, calling("side_by_side", fmt.Sprintf(`{"n":%d}`, n), 0)})
		if err != nil {
			return err
		}
		ideal := micros(waitTime) * float64(n) / parallelWidth
		b.figure("scripts", fmt.Sprintf("parallel of %d x %v, %d at a time, against the ideal", n, waitTime, parallelWidth), t[0].p50/ideal, "x", parallelTarget)
	}
	return nil
}

// durable measures a script of three calls, none of which may be repeated, whose journal is in SQLite:
// each call is stored on the disk before it is made.
func (b *bench) durable() error {
	for _, sync := range []string{"power", "process"} {
		b.say("scripts: a durable journal, sync: %s", sync)
		p, err := b.site.serve(b.site.binary, "durable-"+sync+".yaml", "backends:\n  - {name: old, url: "+b.site.endpoint(legacy, "few")+"}\n"+
			"sessionStorage: {provider: sqlite, sync: "+sync+", path: "+filepath.Join(b.site.dir, sync+".db")+"}\nruns: {durable: always}\n"+scripts)
		if err != nil {
			return err
		}
		defer p.stop()
		if err := p.awaitReady(1, 0, 2*len(sizes)); err != nil {
			return err
		}
		with := *b.site
		with.vmcp = p // whose CPU time counts
		of := &bench{options: b.options, log: b.log, site: &with, report: b.report}
		t, err := of.inTurns(b.rounds(), 10, 200*time.Millisecond, subject{of.scripted(), 1, calling("three", "{}", 0)})
		if err != nil {
			return err
		}
		name := "1 call of a script that calls 3 tools, journal in SQLite, sync: " + sync
		b.figure("scripts", name+", p50", t[0].p50, "us", 0)
		b.figure("scripts", name+", CPU of vmcp", t[0].cpu, "us", 0)
	}
	return nil
}

// reading compares a script of three calls that only read with its journal in SQLite and in memory.
func (b *bench) reading() error {
	b.say("scripts: three calls that only read, journals in memory and in SQLite")
	var subjects []subject
	for _, storage := range []string{"provider: memory", "provider: sqlite, path: " + filepath.Join(b.site.dir, "reading.db")} {
		p, err := b.site.serve(b.site.binary, fmt.Sprintf("reading-%d.yaml", len(subjects)), "backends:\n  - {name: old, url: "+b.site.endpoint(legacy, "few")+"}\n"+
			"sessionStorage: {"+storage+"}\naggregation: {tools: [{workload: old, overrides: {json_100: {annotations: {readOnlyHint: true}}}}]}\n"+scripts)
		if err != nil {
			return err
		}
		defer p.stop()
		if err := p.awaitReady(1, 0, 2*len(sizes)); err != nil {
			return err
		}
		subjects = append(subjects, subject{target{url: p.base + "/mcp", revision: legacy}, 1, calling("three", "{}", 0)})
	}
	t, err := b.inTurns(b.rounds(), 10, 200*time.Millisecond, subjects...)
	if err != nil {
		return err
	}
	b.limited("scripts", "1 call of a script that reads 3 times, journal in SQLite against memory, p50", t[1].p50/t[0].p50, readingLimit)
	return nil
}

// readingLimit bounds the time of a script that only reads with a journal in a database, as a multiple of that with one in memory.
const readingLimit = 2

// largeResults compares a script that reads a large result with a client that does.
func (b *bench) largeResults() error {
	for _, size := range []int{1_000_000, 10_000_000} {
		b.say("scripts: over %s", bytesText(float64(size)))
		tool := fmt.Sprintf("rows_%d", size)
		before := resident(b.site.vmcp.pid())
		t, err := b.inTurns(3, 2, 0,
			subject{b.site.target(direct, legacy), 1, calling(tool, "{}", size/2)},
			subject{b.site.target(relayed, legacy), 1, calling(tool, "{}", size/2)},
			subject{b.scripted(), 1, calling("read", fmt.Sprintf(`{"size":"%d"}`, size), 0)},
		)
		if err != nil {
			return err
		}
		name := bytesText(float64(size)) + " result"
		b.figure("scripts", name+", direct, p50", t[0].p50/1000, "ms", 0)
		b.figure("scripts", name+", relayed, p50", t[1].p50/1000, "ms", 0)
		b.figure("scripts", name+", read by a script, p50", t[2].p50/1000, "ms", 0)
		b.figure("scripts", name+", read by a script, CPU of vmcp", t[2].cpu/1000, "ms", 0)
		b.figure("scripts", name+", growth of vmcp's memory", float64(resident(b.site.vmcp.pid())-before), "B", 0)
	}
	return nil
}
