package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"time"
)

// idleSessions is how many sessions are held open.
const idleSessions = 1000

// sessions measures the memory of idle sessions.
func (b *bench) sessions(context.Context) error {
	b.say("sessions: %d idle ones", idleSessions)
	p, err := b.site.serve(b.site.binary, "sessions.yaml", "backends:\n  - {name: b, url: "+b.site.endpoint(legacy, "few")+"}\n")
	if err != nil {
		return err
	}
	defer p.stop()
	if err := p.awaitReady(1, 0, 1); err != nil {
		return err
	}
	ids, err := b.holdSessions(p)
	if err != nil {
		return err
	}
	return b.holdStreams(p, ids)
}

// growth reports the memory of each of n objects, from measurements before and after f.
func (b *bench) growth(p *process, what string, n float64, f func() error) error {
	heapBefore, err := p.liveHeap()
	if err != nil {
		return err
	}
	before := resident(p.pid())
	if err := f(); err != nil {
		return err
	}
	heapAfter, err := p.liveHeap()
	if err != nil {
		return err
	}
	b.figure("sessions", what+", heap", (heapAfter-heapBefore)/n, "B", 0)
	b.figure("sessions", what+", resident memory", float64(resident(p.pid())-before)/n, "B", 0)
	return nil
}

func (b *bench) holdSessions(p *process) (ids []string, err error) {
	c, err := dial(target{url: p.base + "/mcp", revision: legacy})
	if err != nil {
		return nil, err
	}
	defer c.close()
	return ids, b.growth(p, "an idle session", idleSessions, func() error {
		for range idleSessions {
			if err := c.begin(); err != nil {
				return err
			}
			ids = append(ids, c.session)
		}
		return nil
	})
}

// holdStreams opens the stream of each session, each on a separate connection.
func (b *bench) holdStreams(p *process, ids []string) error {
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	return b.growth(p, "the open stream of a session", float64(len(ids)), func() error {
		for _, id := range ids {
			c, err := listen(p.base, id)
			if err != nil {
				return err
			}
			conns = append(conns, c)
		}
		return nil
	})
}

// listen opens the stream of a session and waits for its beginning.
func listen(base, session string) (net.Conn, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c, "GET /mcp HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nMcp-Protocol-Version: %s\r\nMcp-Session-Id: %s\r\n\r\n", u.Host, legacy, session)
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err == nil && !bytes.Contains(buf[:n], []byte("200 OK")) {
		err = fmt.Errorf("stream of a session: %.100s", buf[:n])
	}
	if err != nil {
		c.Close()
	}
	return c, err
}

// growthTarget bounds the growth of vmcp's memory over many calls, in bytes: the noise of
// a garbage collector, not a leak.
const growthTarget = 16 << 20

// soak makes calls for a while and measures the growth of memory and open files.
func (b *bench) soak(context.Context) error {
	p := b.site.vmcp
	b.say("soak: %v", b.options.soak)
	g, err := gather(b.site.target(relayed, legacy), 8, calling("json_100", `{"text":"hello"}`, 100))
	if err != nil {
		return err
	}
	defer g.close()
	if _, err := g.run(time.Second, 100); err != nil { // until the heap has grown to its final size
		return err
	}
	memory, files := resident(p.pid()), descriptors(p.pid())
	calls := 0
	for until := time.Now().Add(b.options.soak); time.Now().Before(until); {
		v, err := g.run(time.Second, 1)
		if err != nil {
			return fmt.Errorf("soak, after %d calls: %w", calls, err)
		}
		calls += len(v.times)
	}
	b.figure("soak", "calls", float64(calls), "", 0)
	b.figure("soak", "resident memory of vmcp at the end", float64(resident(p.pid())), "B", 0)
	b.figure("soak", "growth of resident memory", float64(resident(p.pid())-memory), "B", growthTarget)
	b.figure("soak", "open files of vmcp at the end", float64(descriptors(p.pid())), "", 0)
	b.figure("soak", "growth of open files", float64(descriptors(p.pid())-files), "", fileTarget)
	return nil
}

// fileTarget bounds the growth of vmcp's open files: the number of connections to the
// backend varies with the load.
const fileTarget = 8
