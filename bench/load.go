package main

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// maxCalls bounds the calls of one connection in one round.
const maxCalls = 20_000

// crowd is a number of concurrent connections, each of which makes the next call as soon as the last one
// is answered.
type crowd struct {
	clients  []*client
	requests []request
}

// gather opens n connections to t, each with the request that prepare returns for it.
func gather(t target, n int, prepare func(*client) request) (*crowd, error) {
	g := new(crowd)
	for range n {
		c, err := dial(t)
		if err != nil {
			g.close()
			return nil, err
		}
		g.clients = append(g.clients, c)
		g.requests = append(g.requests, prepare(c))
	}
	return g, nil
}

func (g *crowd) close() {
	for _, c := range g.clients {
		c.close()
	}
}

// volley has the measurements of a crowd.
type volley struct {
	times   []time.Duration // one per call, sorted
	elapsed time.Duration
}

// run makes calls for the duration d, but at least atLeast on each connection.
func (g *crowd) run(d time.Duration, atLeast int) (volley, error) {
	each := make([][]time.Duration, len(g.clients))
	errs := make([]error, len(g.clients))
	var all sync.WaitGroup
	start := time.Now()
	for i := range g.clients {
		all.Go(func() { each[i], errs[i] = g.one(i, start.Add(d), atLeast) })
	}
	all.Wait()
	v := volley{elapsed: time.Since(start), times: slices.Concat(each...)}
	slices.Sort(v.times)
	return v, errors.Join(errs...)
}

func (g *crowd) one(i int, until time.Time, atLeast int) (times []time.Duration, err error) {
	c, r := g.clients[i], g.requests[i]
	for before := time.Now(); len(times) < maxCalls; {
		if err := c.do(r); err != nil {
			return times, err
		}
		now := time.Now()
		times = append(times, now.Sub(before))
		before = now
		if now.After(until) && len(times) >= atLeast {
			break
		}
	}
	return times, nil
}

// quantile is the q-quantile of the times, in microseconds.
func (v volley) quantile(q float64) float64 {
	if len(v.times) == 0 {
		return 0
	}
	return micros(v.times[int(q*float64(len(v.times)-1))])
}

func (v volley) perSecond() float64 { return float64(len(v.times)) / v.elapsed.Seconds() }

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if len(s) == 0 {
		return 0
	}
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}
