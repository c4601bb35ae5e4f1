package cluster

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestStrangersAreBounded: connections without a verified request replace each other, and do not keep replicas out.
func TestStrangersAreBounded(t *testing.T) {
	c := cluster(t)
	b := c.start("b", nobody)
	a := c.start("a", nobody)
	addr, _ := c.address("b")
	if resp, _ := send(t, "GET", a.url, "b", ""); resp.StatusCode != 200 {
		t.Fatalf("before: %d, %v", resp.StatusCode, <-a.errs)
	}
	<-a.errs
	var all []net.Conn
	for range maxStrangers + 40 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		all = append(all, conn)
	}
	for i, conn := range all[:40] {
		conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Fatalf("connection %d of %d is open: %v", i, len(all), err)
		}
	}
	a.hangUp() // the replica dials again
	if resp, _ := send(t, "GET", a.url, "b", ""); resp.StatusCode != 200 {
		t.Errorf("a replica beside strangers: %d, %v", resp.StatusCode, <-a.errs)
	}
	if n := b.called.Load(); n != 2 {
		t.Errorf("%d requests were served, want 2", n)
	}
}

// TestStrangersSendSoMuch: the bytes of unverified connections are bounded together; the one that has sent the most is
// closed, and a verified one does not count.
func TestStrangersSendSoMuch(t *testing.T) {
	g := newEntrance(nil)
	conns := func(n int) (all []*stranger) {
		for range n {
			near, far := net.Pipe()
			t.Cleanup(func() { near.Close(); far.Close() })
			s := &stranger{Conn: near, entrance: g, since: time.Now()}
			if g.admit(s) > 0 {
				t.Fatal("no place")
			}
			all = append(all, s)
		}
		return all
	}
	all := conns(20)
	r := (&http.Request{}).WithContext(connContext(context.Background(), all[0]))
	known(r)
	for _, s := range all {
		if !s.known.Load() {
			g.read(s, 1<<20)
		}
	}
	if g.bytes > maxStrangerBytes || len(g.all) != 16 {
		t.Errorf("%d connections hold %d bytes, want 16 and at most %d", len(g.all), g.bytes, maxStrangerBytes)
	}
	for _, s := range all {
		s.Close()
	}
	if g.bytes != 0 || len(g.all) != 0 {
		t.Errorf("once all are closed %d connections hold %d bytes", len(g.all), g.bytes)
	}
}

// TestRefusalsAreNoFlood: refused requests cannot flood the log.
func TestRefusalsAreNoFlood(t *testing.T) {
	var log safeBuffer
	c := cluster(t)
	c.start("b", nobody, func(o *PeerOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	addr, _ := c.address("b")
	for range 50 {
		resp, err := http.Get("http://" + addr + "/mcp")
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if n := strings.Count(log.String(), "refused a request"); n != 1 {
		t.Errorf("50 refused requests are %d lines of the log, want 1:\n%s", n, log.String())
	}
	synctest.Test(t, func(t *testing.T) {
		var f refusals
		said := ""
		for range 5 {
			for range 3 {
				if more, logged := f.note(time.Now()); logged {
					said += fmt.Sprint(more, " ")
				}
			}
			time.Sleep(refusalEvery / 2)
		}
		if said != "0 5 5 " {
			t.Errorf("the lines say how many more there were: %q, want 0 5 5", said)
		}
	})
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestHeadersAreBounded: the largest passage is accepted, and not much more.
func TestHeadersAreBounded(t *testing.T) {
	c := cluster(t)
	b := c.start("b", nobody)
	addr, _ := c.address("b")
	for size, want := range map[int]string{maxPassage: "401", 2 * maxHeaders: "431"} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		go io.WriteString(conn, "GET / HTTP/1.1\r\nHost: b\r\nVmcp-Passage: "+strings.Repeat("x", size)+"\r\n\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		if !strings.Contains(line, want) {
			t.Errorf("headers of %d bytes: %q, %v, want %s", size, line, err, want)
		}
	}
	if b.called.Load() != 0 {
		t.Error("a stranger was served")
	}
}

// TestClocksOfPeers: the age of a request is measured by the shared clock.
func TestClocksOfPeers(t *testing.T) {
	c := cluster(t)
	at := func(d time.Duration) func(*PeerOptions) {
		return func(o *PeerOptions) { o.Now = func() time.Time { return time.Now().Add(d) } }
	}
	c.start("b", nobody, at(5*time.Minute))
	for _, tt := range []struct {
		by time.Duration
		ok bool
	}{{5 * time.Minute, true}, {5*time.Minute - window/2, true}, {0, false}} {
		a := c.start("a"+tt.by.String(), nobody, at(tt.by))
		if resp, _ := send(t, "GET", a.url, "b", ""); (resp.StatusCode == 200) != tt.ok {
			t.Errorf("by a clock that is %s ahead of another that is 5m ahead: %d", tt.by, resp.StatusCode)
		}
		<-a.errs
	}
}
