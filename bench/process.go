package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// process is a child process.
type process struct {
	cmd  *exec.Cmd
	base string // URL of its root
	done chan struct{}
	log  *bytes.Buffer // its standard error
}

// start starts a command; wait must follow.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{}), log: new(bytes.Buffer)}
	cmd.Stderr = p.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) wait() {
	p.cmd.Wait()
	close(p.done)
}

// startPeer runs this binary again in another role.
func startPeer(args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	if _, err := cmd.StdinPipe(); err != nil { // it ends when this process does
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := start(cmd)
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go p.wait()
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%s %s: no address: %w: %s", self, strings.Join(args, " "), err, p.log)
	}
	p.base = strings.TrimSpace(line)
	return p, nil
}

// stop ends the process.
func (p *process) stop() {
	p.cmd.Process.Kill()
	<-p.done
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// switches is the number of voluntary context switches of the process's threads; 0 for nil.
func (p *process) switches() float64 {
	if p == nil {
		return 0
	}
	return switches(p.pid())
}

// heap has the memory statistics of a process's Go runtime.
type heap struct {
	mallocs, bytes, live float64
	collections          float64
}

// heap reads a process's /metrics.
func (p *process) heap() (heap, error) {
	var h heap
	resp, err := http.Get(p.base + "/metrics")
	if err != nil {
		return h, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "go_memstats_mallocs_total":
			h.mallocs = n
		case "go_memstats_alloc_bytes_total":
			h.bytes = n
		case "go_memstats_heap_alloc_bytes":
			h.live = n
		case "go_gc_duration_seconds_count":
			h.collections = n
		}
	}
	return h, err
}

// heapAfterLook is heap with the allocations of one more call of heap added, so that the difference to a later
// call does not include the allocations of that call.
func (p *process) heapAfterLook() (heap, error) {
	first, err := p.heap()
	if err != nil {
		return first, err
	}
	h, err := p.heap()
	h.mallocs += h.mallocs - first.mallocs
	h.bytes += h.bytes - first.bytes
	return h, err
}

// liveHeap is the heap right after a garbage collection, the least of three; its requests
// cause the collections.
func (p *process) liveHeap() (float64, error) {
	last, err := p.heap()
	var live []float64
	for range 5000 {
		var now heap
		if err == nil {
			now, err = p.heap()
		}
		if err != nil {
			return 0, err
		}
		if now.collections > last.collections {
			last = now
			live = append(live, now.live)
		}
		if len(live) == 12 {
			return slices.Min(live[2:]), nil // the first ones empty the pools
		}
	}
	return 0, fmt.Errorf("%s: no garbage collection in 5000 requests", p.base)
}

// awaitHTTP polls a URL until ok returns true, the process ends, or a minute has passed.
func (p *process) awaitHTTP(url string, every time.Duration, ok func(body []byte) bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for {
		if resp, err := http.Get(url); err == nil {
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil && ok(body) {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended: %s", p.cmd.Path, p.log)
		case <-limit:
			return fmt.Errorf("%s: not ready within a minute", url)
		}
	}
}
