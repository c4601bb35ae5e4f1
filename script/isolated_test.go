package script_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/limits"
	"github.com/vmcp-dev/vmcp/script"
)

// peer is the worker's end of a channel in memory: a hostile worker is a function of it.
type peer struct {
	in, out chan []byte
	closed  chan struct{}
	once    sync.Once
}

func newPeer() *peer {
	return &peer{in: make(chan []byte, 100), out: make(chan []byte, 100), closed: make(chan struct{})}
}

func (p *peer) Send(parts ...[]byte) error {
	var frame []byte
	for _, part := range parts {
		frame = append(frame, part...)
	}
	select {
	case p.in <- frame:
		return nil
	case <-p.closed:
		return io.ErrClosedPipe
	}
}

func (p *peer) Receive(most int64) ([]byte, error) {
	select {
	case frame := <-p.out:
		if int64(len(frame)) > most {
			return nil, errors.New("a frame that is too long")
		}
		return frame, nil
	case <-p.closed:
		return nil, errors.New("it ended before its run did")
	}
}

func (p *peer) Close() { p.once.Do(func() { close(p.closed) }) }

// next returns the next message to the worker; nil after the last one.
func (p *peer) next() *script.Message {
	select {
	case frame := <-p.in:
		m, err := script.Decode(frame)
		if err != nil {
			panic(err)
		}
		return m
	case <-p.closed:
		return nil
	}
}

func (p *peer) say(kind script.Kind, branch int64, numbers []int64, parts ...[]byte) {
	m := script.Message{Kind: kind, Branch: branch, Numbers: numbers, Parts: parts}
	var frame []byte
	for _, part := range m.Encode() {
		frame = append(frame, part...)
	}
	p.out <- frame
}

// hostile is an isolation whose worker is a function.
type hostile struct {
	worker func(p *peer)
	calls  int
}

func (h *hostile) Open(context.Context, script.Limits) (script.Channel, error) {
	p := newPeer()
	go func() {
		program, run := p.next(), p.next() // of branch 1
		if program != nil && run != nil {
			h.worker(p)
		}
	}()
	return p, nil
}

func (h *hostile) Patience() time.Duration { return time.Hour }

func (h *hostile) Check(e script.Effect) error {
	if e.Kind != "call" || e.Free || e.Instant || e.Repeatable {
		return errors.New("an unknown kind of effect")
	}
	return nil
}

func (h *hostile) Ask(context.Context, any, script.Asked) ([][]byte, error) {
	h.calls++
	return [][]byte{[]byte(`{"content":[]}`)}, nil
}

func (h *hostile) EncodeError(err error) []byte {
	if err == nil {
		return nil
	}
	return []byte(err.Error())
}

func (h *hostile) DecodeError(data []byte, _ script.Known) error {
	if data == nil {
		return nil
	}
	return errors.New(string(data))
}

// spent are the counts of a worker that has used nothing.
func spent(more ...int64) []int64 { return append(make([]int64, script.Sent), more...) }

// TestAWorkerIsNotTrusted has workers that break the protocol.
func TestAWorkerIsNotTrusted(t *testing.T) {
	do := func(p *peer, flags int64, kind, name, args string) {
		p.say(script.Do, 1, spent(int64(len(args)), flags), []byte(kind), []byte(name), []byte(args))
	}
	call := func(p *peer) { // gets as far as an effect that is being performed
		do(p, 0, "call", "t", "{}")
		p.next()
	}
	for name, tt := range map[string]struct {
		worker func(p *peer)
		want   string
		calls  int
	}{
		"malformed":      {func(p *peer) { p.out <- []byte("what?") }, "malformed", 0},
		"an empty frame": {func(p *peer) { p.out <- nil }, "malformed", 0},
		"many numbers":   {func(p *peer) { p.say(script.Ended, 1, make([]int64, script.MaxNumbers+1)) }, "malformed", 0},
		"a long frame":   {func(p *peer) { p.out <- make([]byte, 16<<20) }, "a frame that is too long", 0},
		"another branch": {func(p *peer) { p.say(script.Ended, 7, spent()) }, "no such branch", 0},
		"twice at once": {func(p *peer) {
			call(p)
			p.say(script.Host, 1, nil, nil)
			p.say(script.Host, 1, nil, nil)
			p.say(script.Host, 1, nil, nil)
		}, "it sent an invalid message", 1},
		"no numbers":           {func(p *peer) { p.say(script.Ended, 1, nil) }, "counts are missing", 0},
		"memory without grant": {func(p *peer) { p.say(script.Ended, 1, []int64{0, 1 << 40, 0, 0, 0, 0, 0, 0}) }, "more than it was granted", 0},
		"steps without grant":  {func(p *peer) { p.say(script.Ended, 1, []int64{1 << 40, 0, 0, 0, 0, 0, 0, 0}) }, "more than it was granted", 0},
		"counts of memory that decrease": {func(p *peer) {
			call(p)
			p.say(script.Performed, 1, nil, nil, []byte(`{"text":"bm8="}`))
			p.next()
			p.say(script.Ended, 1, spent())
		}, "counts of memory that decrease", 0},
		"a stack below nothing":   {func(p *peer) { p.say(script.Ended, 1, []int64{0, 0, -1, 0, 0, 0, 0, 0}) }, "invalid counts of the stack", 0},
		"a grant of less":         {func(p *peer) { p.say(script.Grant, 1, spent(0, -1, 0, 0)) }, "a request for a negative grant", 0},
		"an answer":               {func(p *peer) { p.say(script.Done, 1, spent()) }, "an unexpected kind", 0},
		"an unknown effect":       {func(p *peer) { do(p, 0, "breakfast", "", "") }, "an unknown kind of effect", 0},
		"a call that is free":     {func(p *peer) { do(p, 2, "call", "t", "{}") }, "an unknown kind of effect", 0},
		"arguments that are none": {func(p *peer) { do(p, 0, "call", "t", "{") }, "arguments that are not JSON", 0},
		"a call in no effect":     {func(p *peer) { p.say(script.Host, 1, spent(0)) }, "a call of the host", 0},
		"two calls in an effect": {func(p *peer) {
			call(p)
			p.say(script.Host, 1, nil, []byte("call"))
			p.next()
			p.say(script.Host, 1, nil, []byte("call"))
		}, "in an effect", 1},
		"an effect in an effect": {func(p *peer) { call(p); do(p, 0, "call", "u", "{}") }, "in an effect", 0},
		"a result of its own":    {func(p *peer) { call(p); p.say(script.Performed, 1, []int64{0}, []byte(`{"content":[1]}`)) }, "a result that the tool did not return", 0},
		"a result of no call":    {func(p *peer) { call(p); p.say(script.Performed, 1, []int64{1}) }, "a result that the tool did not return", 0},
		"a value that is none":   {func(p *peer) { p.say(script.Ended, 1, spent(), nil, []byte("{")) }, "a result that is invalid or too long", 0},
		"content that is none":   {func(p *peer) { p.say(script.Ended, 1, spent(), nil, nil, []byte("{}")) }, "a result that is neither a value nor content blocks", 0},
		"no result":              {func(p *peer) { p.say(script.Ended, 1, spent(), nil) }, "a result that is neither a value nor content blocks", 0},
		"fewer than no branches": {func(p *peer) { p.say(script.Parallel, 1, spent(-1, 1)) }, "branches", 0},
		"a line below nothing":   {func(p *peer) { p.say(script.Logged, 1, spent(-1)) }, "a log line of -1 bytes", 0},
		"a print below nothing":  {func(p *peer) { p.say(script.Printed, 1, spent(-1), nil, []byte("x")) }, "an invalid line of print()", 0},
		"an end":                 {func(p *peer) { p.Close() }, "it ended before its run did", 0},
		"silence":                {func(p *peer) {}, "limit reached: time", 0},
		"silence in an effect":   {func(p *peer) { call(p) }, "limit reached: time", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := script.Compile(script.File{Name: "a.star", Source: []byte("def run(params): return 1")}, script.Options{})
			if err != nil {
				t.Fatal(err)
			}
			h := &hostile{worker: tt.worker}
			pool := script.NewPool(1<<30, 1, nil)
			bounds := script.Limits{Time: limits.Duration(time.Hour)}
			if strings.HasPrefix(name, "silence") {
				bounds.Time = limits.Duration(100 * time.Millisecond)
			}
			_, err = p.Run(t.Context(), script.RunOptions{Isolation: h, Host: h, Pool: pool, Limits: bounds})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Run = %v, want an error with %q", err, tt.want)
			}
			if h.calls != tt.calls {
				t.Errorf("the host was asked %d times, want %d", h.calls, tt.calls)
			}
			if !script.Final(err) {
				t.Errorf("%v: a script could catch it", err)
			}
			// Neither its slot nor its memory is lost.
			if res, err := p.Run(t.Context(), script.RunOptions{Pool: pool}); err != nil || string(res.Structured) != "1" {
				t.Errorf("the next run: %v", err)
			}
			if use := pool.Usage(); use.Charged != 0 || use.Active != 0 || use.Free != 1 {
				t.Errorf("the pool has %+v; want 0 bytes, 0 runs, 1 free slot", use)
			}
		})
	}
}
