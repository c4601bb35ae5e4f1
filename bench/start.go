package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// lists measures the listing of many tools.
func (b *bench) lists(context.Context) error {
	b.say("lists: %d tools", manyTools)
	p, err := b.site.serve(b.site.binary, "many.yaml", "backends:\n  - {name: many, url: "+b.site.endpoint(legacy, "many")+"}\n")
	if err != nil {
		return err
	}
	defer p.stop()
	if err := p.awaitReady(1, 0, manyTools); err != nil {
		return err
	}
	mine, err := b.newLister(p, p.base+"/mcp")
	if err != nil {
		return err
	}
	defer mine.client.close()
	through, err := b.newLister(b.site.reverse, strings.Replace(b.site.endpoint(legacy, "many"), b.site.backend.base, b.site.reverse.base, 1))
	if err != nil {
		return err
	}
	defer through.client.close()
	for range b.rounds() { // alternately, so that noise of the machine affects both
		for _, l := range []*lister{mine, through} {
			if err := l.list(); err != nil {
				return err
			}
		}
	}
	name := fmt.Sprintf("tools/list of %d tools, %d pages", manyTools, len(mine.pages))
	b.figure("lists", name+", time", median(mine.times), "us", 0)
	b.figure("lists", name+", CPU", median(mine.cpus), "us", 0)
	b.figure("lists", "the same list through the reverse proxy, CPU", median(through.cpus), "us", 0)
	b.figure("lists", name+", CPU against the reverse proxy", median(mine.cpus)/median(through.cpus), "x", listTarget)
	return nil
}

// listTarget bounds the CPU time of a list from prepared bytes, as a multiple of forwarding the same bytes.
const listTarget = 1

// lister lists all tools of an endpoint, and measures the time and the CPU time of its process
// for each list.
type lister struct {
	process     *process
	client      *client
	pages       []request
	times, cpus []float64
}

func (b *bench) newLister(p *process, url string) (*lister, error) {
	c, err := dial(target{url: url, revision: legacy})
	if err != nil {
		return nil, err
	}
	pages, err := readPages(c)
	if err != nil {
		c.close()
		return nil, err
	}
	return &lister{process: p, client: c, pages: pages}, nil
}

func (l *lister) list() error {
	const listings = 100
	cpu, start := cpuTime(l.process.pid()), time.Now()
	for range listings {
		for _, page := range l.pages {
			if err := l.client.do(page); err != nil {
				return err
			}
		}
	}
	l.times = append(l.times, micros(time.Since(start))/listings)
	l.cpus = append(l.cpus, micros(cpuTime(l.process.pid())-cpu)/listings)
	return nil
}

// readPages follows the cursors once and returns a request for each page.
func readPages(c *client) (pages []request, err error) {
	params := "{}"
	for tools := 0; ; {
		r := c.prepare("tools/list", params)
		if err := c.do(r); err != nil {
			return nil, err
		}
		pages = append(pages, r)
		var answer struct {
			Result struct {
				Tools      []struct{}
				NextCursor string
			}
		}
		if err := json.Unmarshal(c.body, &answer); err != nil {
			return nil, err
		}
		if tools += len(answer.Result.Tools); answer.Result.NextCursor == "" {
			if tools != manyTools {
				return nil, fmt.Errorf("listed %d tools, want %d", tools, manyTools)
			}
			return pages, nil
		}
		params = fmt.Sprintf(`{"cursor":%q}`, answer.Result.NextCursor)
	}
}

// startTargets are for one start with a number of backends.
const (
	initializeTarget = 1000 // µs of CPU
	startMany        = 2    // seconds
)

// start measures the times from the start of vmcp to its first response, and until it is ready.
func (b *bench) start(ctx context.Context) error {
	for _, n := range []int{1, 10, 50, 200} {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b.say("start: %d backends", n)
		var answering, ready, initialize, cpu []float64
		for range min(3, b.rounds()) {
			s, err := b.startOnce(n)
			if err != nil {
				return fmt.Errorf("start with %d backends: %w", n, err)
			}
			answering, ready = append(answering, s.answering), append(ready, s.ready)
			initialize, cpu = append(initialize, s.initialize), append(cpu, s.cpu)
		}
		name := fmt.Sprintf("%d backends and a dead one", n)
		target := 0.0
		if n == 200 {
			target = startMany * 1000
		}
		b.figure("start", name+", start to the first answer", median(answering), "ms", 0)
		b.figure("start", name+", start to ready", median(ready), "ms", target)
		b.figure("start", name+", initialize, p50", median(initialize), "us", 0)
		b.figure("start", name+", initialize, CPU of vmcp", median(cpu), "us", initializeTarget)
	}
	return nil
}

// started are the times of one start: in milliseconds to the first response and until ready, in microseconds of an
// initialize and of its CPU.
type started struct{ answering, ready, initialize, cpu float64 }

func (b *bench) startOnce(n int) (s started, err error) {
	var config strings.Builder
	config.WriteString("backends:\n  - {name: dead, url: \"http://127.0.0.1:1/mcp\"}\n")
	for i := range n {
		fmt.Fprintf(&config, "  - {name: b%d, url: %s}\n", i, b.site.endpoint(legacy, "tiny"))
	}
	began := time.Now()
	p, err := b.site.serve(b.site.binary, fmt.Sprintf("start-%d.yaml", n), config.String())
	if err != nil {
		return s, err
	}
	defer p.stop()
	if err := p.awaitHTTP(p.base+"/healthz", time.Millisecond, func([]byte) bool { return true }); err != nil {
		return s, err
	}
	s.answering = micros(time.Since(began)) / 1000
	if err := p.awaitReady(n, 1, n); err != nil {
		return s, err
	}
	s.ready = micros(time.Since(began)) / 1000
	s.initialize, s.cpu, err = initializeOften(p)
	return s, err
}

// initializeOften begins sessions on one connection and returns the time and the CPU time
// of one initialize, with the notification that follows it.
func initializeOften(p *process) (p50, cpu float64, err error) {
	c, err := dial(target{url: p.base + "/mcp", revision: legacy})
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	const sessions = 200
	var times []float64
	before := cpuTime(p.pid())
	for range sessions {
		start := time.Now()
		if err := c.begin(); err != nil {
			return 0, 0, err
		}
		times = append(times, micros(time.Since(start)))
	}
	return median(times), micros(cpuTime(p.pid())-before) / sessions, nil
}
