package cluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmcp-dev/vmcp/internal/testkit"
	"github.com/vmcp-dev/vmcp/internal/testmode"
	"github.com/vmcp-dev/vmcp/proxy/edge"
	"github.com/vmcp-dev/vmcp/script/durable"
)

// replicas is one cluster; each replica has a port for the others and one for clients.
type replicas struct {
	t    *testing.T
	mu   sync.Mutex
	addr map[string]string // guarded by mu
}

// replica is one of them. Its port for clients forwards every request to the replica that the header To names.
type replica struct {
	*Peers
	url    string
	errs   chan error
	called atomic.Int64
}

func cluster(t *testing.T) *replicas { return &replicas{t: t, addr: map[string]string{}} }

func (c *replicas) at(id, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addr[id] = addr
}

func (c *replicas) address(id string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.addr[id]
	return a, ok
}

func ringOf(t *testing.T, ids ...string) *durable.Ring {
	t.Helper()
	var keys []durable.Key
	for _, id := range ids {
		keys = append(keys, durable.Key{ID: id, Secret: bytes.Repeat([]byte(id), 32)})
	}
	r, err := durable.NewSeal(keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// start makes a replica; change may change its options.
func (c *replicas) start(id string, serve func(http.ResponseWriter, *http.Request, Passage), change ...func(*PeerOptions)) *replica {
	c.t.Helper()
	r := &replica{errs: make(chan error, 100)}
	o := PeerOptions{Ring: ringOf(c.t, "k"), Space: "vmcp", Self: id, Address: c.address, Timeout: 20 * time.Second} // no machine is so slow
	o.Serve = func(w http.ResponseWriter, q *http.Request, p Passage) { r.called.Add(1); serve(w, q, p) }
	for _, f := range change {
		f(&o)
	}
	r.Peers = NewPeers(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.at(id, l.Addr().String())
	go r.Listen(l)
	c.t.Cleanup(r.Close)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		w.Header().Set("Access-Control-Allow-Origin", "x")
		err := r.Forward(w, q, Passage{To: q.Header.Get("To"), Session: "S", Kind: Session, Principal: []byte("ann"), Client: q.RemoteAddr, Body: body})
		r.errs <- err
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	c.t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

// hangUp closes the idle connections to the others.
func (r *replica) hangUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.peers {
		e.mu.Lock()
		e.leave()
		e.mu.Unlock()
	}
}

func send(t *testing.T, method, url, to, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("To", to)
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func nobody(http.ResponseWriter, *http.Request, Passage) {}

// TestForward: the request arrives unchanged with its principal, and so does the response. Headers that only replicas
// may send are not taken from a client.
func TestForward(t *testing.T) {
	c := cluster(t)
	c.start("b", func(w http.ResponseWriter, r *http.Request, p Passage) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Mcp-Session-Id", "sealed")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, "%s %s %s %s host %s | %s from %s for %s to %s | client %t, %d bytes | xff %s | peer %q %q", r.Method, r.URL.RequestURI(), body, r.Header.Get("Authorization"), r.Host,
			p.Session, p.From, p.Principal, p.To, r.RemoteAddr == p.Client && p.Client != "", len(p.Body), r.Header.Get("X-Forwarded-For"), r.Header.Get(headerPeer), r.Header.Get(headerPassage))
	})
	a := c.start("a", nobody)
	resp, got := send(t, "POST", a.url+"/mcp/ops?x=%2F", "b", "the body", "Authorization", "Bearer t", headerPeer, "a;1;x", headerPassage, "e30", headerReplica, "z",
		"X-Forwarded-For", "9.9.9.9", "Idempotency-Key", "i", "Expect", "100-continue")
	want := "POST /mcp/ops?x=%2F the body Bearer t host " + strings.TrimPrefix(a.url, "http://") + ` | S from a for ann to b | client true, 8 bytes | xff 9.9.9.9 | peer "" ""`
	if resp.StatusCode != 202 || got != want {
		t.Errorf("%d\n got %s\nwant %s", resp.StatusCode, got, want)
	}
	if h := resp.Header; h.Get("Mcp-Session-Id") != "sealed" || h.Get("Access-Control-Allow-Origin") != "x" || h.Get(headerReplica) != "" {
		t.Errorf("headers %v", h)
	}
	if err := <-a.errs; err != nil {
		t.Error(err)
	}
}

// TestStrangersAreRefused: requests without a signature, or with one for another request, time or replica.
func TestStrangersAreRefused(t *testing.T) {
	c := cluster(t)
	b := c.start("b", nobody)
	signer := func(change func(*PeerOptions)) *Peers {
		o := PeerOptions{Ring: ringOf(t, "k"), Space: "vmcp", Self: "a", Address: c.address}
		change(&o)
		p := NewPeers(o)
		t.Cleanup(p.Close)
		return p
	}
	a := signer(func(*PeerOptions) {})
	addr, _ := c.address("b")
	request := func(by *Peers, to, body string, change ...func(*http.Request)) int {
		t.Helper()
		r, err := http.NewRequest("POST", "http://"+addr+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		by.sign(r, Passage{To: to, Session: "S", Body: []byte(body)})
		for _, f := range change {
			f(r)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	var peer, passage string
	if got := request(a, "b", "body", func(r *http.Request) { peer, passage = r.Header.Get(headerPeer), r.Header.Get(headerPassage) }); got != 200 {
		t.Fatalf("a good one: %d", got)
	}
	at := strings.Split(peer, ";")
	for name, tt := range map[string]struct{ got, want int }{
		"not signed": {request(a, "b", "", func(r *http.Request) { r.Header.Del(headerPeer) }), 401},
		"no passage": {request(a, "b", "", func(r *http.Request) { r.Header.Del(headerPassage) }), 401},
		"sent again": {request(a, "b", "body", func(r *http.Request) { r.Header.Set(headerPeer, peer); r.Header.Set(headerPassage, passage) }), 401},
		"other time": {request(a, "b", "body", func(r *http.Request) {
			r.Header.Set(headerPeer, at[0]+";"+at[1]+"0;"+at[2])
			r.Header.Set(headerPassage, passage)
		}), 401},
		"other sender":       {request(a, "b", "", func(r *http.Request) { r.Header.Set(headerPeer, "c"+r.Header.Get(headerPeer)[1:]) }), 401},
		"other method":       {request(a, "b", "", func(r *http.Request) { r.Method = "DELETE" }), 401},
		"other path":         {request(a, "b", "", func(r *http.Request) { r.URL.Path = "/mcp/admin" }), 401},
		"other query":        {request(a, "b", "", func(r *http.Request) { r.URL.RawQuery = "a" }), 401},
		"signed twice":       {request(a, "b", "", func(r *http.Request) { r.Header.Add(headerPeer, r.Header.Get(headerPeer)) }), 401},
		"nonsense":           {request(a, "b", "", func(r *http.Request) { r.Header.Set(headerPeer, ";;") }), 401},
		"another key":        {request(signer(func(o *PeerOptions) { o.Ring = ringOf(t, "x") }), "b", ""), 401},
		"another cluster":    {request(signer(func(o *PeerOptions) { o.Space = "other" }), "b", ""), 401},
		"for another one":    {request(a, "c", ""), 421},
		"another body":       {request(a, "b", "body", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("BODY")) }), 400},
		"a longer body":      {request(a, "b", "body", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body+")), 5 }), 400},
		"a shorter body":     {request(a, "b", "body", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("bod")), 3 }), 400},
		"more than is taken": {request(a, "b", strings.Repeat("x", 10<<20)), 413},
		"a large one":        {request(a, "b", strings.Repeat("x", 4<<20)), 200},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %d, want %d", name, tt.got, tt.want)
		}
	}
	if n := b.called.Load(); n != 2 {
		t.Errorf("%d requests were served, want 2", n)
	}
}

// TestStrangersHoldNothing: an unsigned request whose body does not arrive is answered, and its connection closed.
func TestStrangersHoldNothing(t *testing.T) {
	testmode.Parallel(t)
	c := cluster(t)
	c.start("b", nobody)
	addr, _ := c.address("b")
	if text := testkit.BodyNeverComes(t, addr); !strings.HasPrefix(text, "HTTP/1.1 401 ") {
		t.Errorf("a request whose body does not come: %q", text)
	}
}

// TestReplaysAreKnownWithinBounds: every request is accepted once, in any order, in bounded memory.
func TestReplaysAreKnownWithinBounds(t *testing.T) {
	var p replays
	if !p.isNew("a", 100) || p.isNew("a", 100) || !p.isNew("a", 99) || p.isNew("a", 99) || !p.isNew("b", 100) {
		t.Error("a request is known that did not come, or not known that did")
	}
	for i := range int64(2 * peersRemembered) {
		if !p.isNew("c", 1000+i) {
			t.Fatalf("request %d is known", i)
		}
	}
	for _, old := range []int64{1000, 1000 + peersRemembered - 1, 1000 + 2*peersRemembered - 1} {
		if p.isNew("c", old) {
			t.Errorf("request %d is new", old)
		}
	}
	if s := p.from["c"]; len(s.seen) != peersRemembered || len(s.order) != peersRemembered {
		t.Errorf("%d and %d are remembered", len(s.seen), len(s.order))
	}
	for i := range 2 * senders {
		p.isNew(fmt.Sprint(i), 1)
	}
	if len(p.from) > senders || p.isNew("one more", 5) {
		t.Errorf("%d senders are remembered", len(p.from))
	}
	for _, s := range p.from {
		s.last = s.last.Add(-3 * window)
	}
	if !p.isNew("later", time.Now().UnixNano()) || len(p.from) != 1 {
		t.Errorf("%d senders are remembered, want the one that is there", len(p.from))
	}
	p.from["later"].last = time.Now().Add(-3 * window)
	if !p.isNew("restarted", time.Now().UnixNano()) || len(p.from) != 1 {
		t.Errorf("%d senders are remembered of which one is there: replicas come and go", len(p.from))
	}
}

// TestRotationOfPeers: replicas at neighbouring steps of a key rotation accept each other.
func TestRotationOfPeers(t *testing.T) {
	steps := [][]string{{"a"}, {"a", "b"}, {"b", "a"}, {"b"}}
	for i := range steps[1:] {
		for _, pair := range [][2][]string{{steps[i], steps[i+1]}, {steps[i+1], steps[i]}} {
			c := cluster(t)
			c.start("b", nobody, func(o *PeerOptions) { o.Ring = ringOf(t, pair[0]...) })
			a := c.start("a", nobody, func(o *PeerOptions) { o.Ring = ringOf(t, pair[1]...) })
			if resp, _ := send(t, "GET", a.url, "b", ""); resp.StatusCode != 200 {
				t.Errorf("%v to %v: %v", pair[1], pair[0], <-a.errs)
			}
		}
	}
}

// TestStreams: events arrive one by one; when either end leaves, the other ends.
func TestStreams(t *testing.T) {
	c := cluster(t)
	next, left := make(chan string), make(chan struct{})
	c.start("b", func(w http.ResponseWriter, r *http.Request, _ Passage) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(200)
		defer close(left)
		for {
			http.NewResponseController(w).Flush()
			select {
			case s := <-next:
				if s == "" {
					panic(http.ErrAbortHandler)
				}
				io.WriteString(w, s+"\n")
			case <-r.Context().Done():
				return
			}
		}
	})
	a := c.start("a", nobody)
	open := func() (*bufio.Reader, context.CancelFunc) {
		left = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		q, _ := http.NewRequestWithContext(ctx, "GET", a.url, nil)
		q.Header.Set("To", "b")
		resp, err := http.DefaultClient.Do(q)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		return bufio.NewReader(resp.Body), cancel
	}
	in, leave := open()
	for _, s := range []string{"one", "two"} {
		next <- s
		if line, err := in.ReadString('\n'); line != s+"\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	leave()
	<-left
	in, leave = open()
	defer leave()
	next <- ""
	if _, err := in.ReadString('\n'); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a stream that was broken off ends with %v", err)
	}
}

// TestBodyIsNotReadAfterwards: after a response that came before the whole body was sent, the transport does not read
// the buffer, which another request may use.
func TestBodyIsNotReadAfterwards(t *testing.T) {
	var s sending
	s.rest = []byte("mine and theirs")
	b := make([]byte, 4)
	if n, err := s.Read(b); n != 4 || err != nil || string(b) != "mine" {
		t.Errorf("%q, %v", b[:n], err)
	}
	s.Close()
	if n, err := s.Read(b); n != 0 || err != errEnded {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestGone: the replica is unknown, does not listen, has been replaced by another process, does not own the session, or
// rejects the signature. Nothing was started.
func TestGone(t *testing.T) {
	c := cluster(t)
	a := c.start("a", nobody)
	other := c.start("other", nobody)
	c.start("moved", func(w http.ResponseWriter, _ *http.Request, _ Passage) { moved(w) })
	c.start("foreign", nobody, func(o *PeerOptions) { o.Ring = ringOf(t, "x") })
	c.at("closed", testkit.NobodyListens)
	addr, _ := c.address("other")
	c.at("replaced", addr)
	for id, want := range map[string]error{"unknown": errGone, "closed": errGone, "replaced": errGone, "moved": errMoved, "foreign": errRefused, "other": nil} {
		send(t, "POST", a.url, id, "x")
		if err := <-a.errs; !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
	if other.called.Load() != 1 {
		t.Errorf("%d requests were served", other.called.Load())
	}
}

// TestSilent: a replica that accepts connections and sends nothing is gone; requests that it has started, streams too,
// are broken off and not repeated.
func TestSilent(t *testing.T) {
	testmode.NeedThorough(t)
	testmode.Parallel(t)
	c := cluster(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // nobody accepts: the kernel does
	c.at("b", l.Addr().String())
	a := c.start("a", nobody, func(o *PeerOptions) { o.Timeout = 300 * time.Millisecond })
	for range 2 {
		send(t, "POST", a.url, "b", strings.Repeat("x", 8<<20)) // more than the kernel takes
		if err := <-a.errs; !errors.Is(err, errGone) {
			t.Errorf("silent from the beginning: %v", err)
		}
	}

	release := make(chan struct{})
	defer close(release)
	a = c.start("patient", nobody, func(o *PeerOptions) { o.Timeout = time.Second })
	for _, method := range []string{"POST", "GET"} {
		slow := c.start(method, func(w http.ResponseWriter, r *http.Request, _ Passage) {
			if r.Method == "GET" {
				w.WriteHeader(200)
				http.NewResponseController(w).Flush()
			}
			<-release
		})
		g := &gate{}
		addr, _ := c.address(method)
		c.at(method, g.front(t, addr))
		done := make(chan struct{})
		go func() {
			defer close(done)
			q, _ := http.NewRequestWithContext(t.Context(), method, a.url, nil)
			q.Header.Set("To", method)
			if resp, err := http.DefaultClient.Do(q); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		testkit.Eventually(t, "a request that the other one has begun", func() bool { return a.begun(method) })
		g.silent.Store(true)
		<-done
		if method == "POST" {
			if err := <-a.errs; err == nil || errors.Is(err, errGone) || errors.Is(err, errMoved) {
				t.Errorf("silent after it was begun: %v", err)
			}
		}
		if slow.called.Load() != 1 {
			t.Errorf("%s is served %d times", method, slow.called.Load())
		}
	}
}

// begun reports whether a replica has started a request of this one.
func (r *replica) begun(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.peers[id]
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for t := range e.underway {
		if t.started.Load() {
			return true
		}
	}
	return false
}

// A gate is a proxy in front of an address. While it is silent it forwards nothing and closes nothing.
type gate struct {
	silent atomic.Bool
}

func (g *gate) front(t *testing.T, addr string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	pass := func(to, from net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			if err != nil {
				to.Close()
				return
			}
			if g.silent.Load() {
				continue
			}
			to.Write(buf[:n])
		}
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				in.Close()
				continue
			}
			go pass(out, in)
			go pass(in, out)
		}
	}()
	return l.Addr().String()
}

// TestAwake: a process that was suspended reads the adoptions before it starts a request.
func TestAwake(t *testing.T) {
	c := cluster(t)
	var looked atomic.Int64
	fail := errors.New("the store is away")
	var away atomic.Bool
	b := c.start("b", nobody, func(o *PeerOptions) {
		o.Refresh = func(context.Context) error {
			looked.Add(1)
			if away.Load() {
				return fail
			}
			return nil
		}
	})
	a := c.start("a", nobody)
	for _, step := range []struct {
		still, away bool
		want        int64
	}{{false, false, 0}, {true, true, 1}, {false, false, 1}, {true, false, 2}} {
		away.Store(step.away)
		if step.still {
			b.pause.last.Store(time.Now().Add(-2 * stillFor).UnixNano())
		}
		if resp, _ := send(t, "POST", a.url, "b", ""); resp.StatusCode != 200 {
			t.Errorf("%+v: %d", step, resp.StatusCode)
		}
		if looked.Load() < step.want { // a busy machine suspends it, too
			t.Errorf("%+v: looked %d times", step, looked.Load())
		}
	}
}

// TestMutualTLS: both sides verify certificates of one CA; a client without one is refused, and a server for another
// host.
func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	authority, stranger := testkit.NewAuthority(t), testkit.NewAuthority(t)
	authority.WriteCert(t, filepath.Join(dir, "ca.crt"))
	files := func(name string, by *testkit.Authority, addr string) *TLS {
		cert, key := testkit.WritePair(t, dir, name, by.Issue(t, x509.Certificate{IPAddresses: []net.IP{net.ParseIP(addr)}}))
		secure, err := NewTLS(cert, key, filepath.Join(dir, "ca.crt"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return secure
	}
	c := cluster(t)
	with := func(s *TLS) func(*PeerOptions) { return func(o *PeerOptions) { o.TLS = s } }
	c.start("b", nobody, with(files("b", authority, "127.0.0.1")))
	c.start("misnamed", nobody, with(files("misnamed", authority, "127.0.0.2")))
	c.start("plain", nobody)
	a := c.start("a", nobody, with(files("a", authority, "127.0.0.1")))
	foreign := c.start("foreign", nobody, with(files("foreign", stranger, "127.0.0.1")))
	for _, tt := range []struct {
		from *replica
		to   string
		ok   bool
	}{{a, "b", true}, {a, "misnamed", false}, {a, "plain", false}, {a, "foreign", false}, {foreign, "b", false}} {
		if resp, _ := send(t, "POST", tt.from.url, tt.to, "x"); (resp.StatusCode == 200) != tt.ok {
			t.Errorf("%s: %d, %v", tt.to, resp.StatusCode, <-tt.from.errs)
			continue
		}
		<-tt.from.errs
	}
	addr, _ := c.address("b")
	naked := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	r, _ := http.NewRequest("POST", "https://"+addr+"/mcp", nil)
	a.sign(r, Passage{To: "b"})
	resp, err := naked.Do(r)
	if err != nil || resp.StatusCode != 401 {
		t.Errorf("without a certificate: %v, %v", resp, err)
	}
}

// TestSaid: the description of a request is JSON that replicas of every version read and write.
func TestSaid(t *testing.T) {
	type text struct {
		To        string `json:"to"`
		Session   string `json:"session,omitempty"`
		Kind      string `json:"kind,omitempty"`
		Principal []byte `json:"principal,omitempty"`
		Client    string `json:"client,omitempty"`
		Size      int    `json:"size"`
		Digest    []byte `json:"digest"`
	}
	for _, s := range []*said{
		{Digest: []byte{}},
		{Passage{To: "b", Session: "S", Kind: live, Client: "[::1]:9", Principal: []byte{0, 255, '"'}}, 5, bytes.Repeat([]byte{200}, 32)},
		{Passage{To: `"\` + "\n", Session: "</ü\u2028", Principal: bytes.Repeat([]byte("x"), 300<<10)}, 1 << 30, []byte("d")},
	} {
		want := text{s.To, s.Session, s.Kind, s.Principal, s.Client, s.Size, s.Digest}
		var got text
		if err := json.Unmarshal(s.text(), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v is written as %s: %v", want, s.text(), err)
		}
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := readSigned(b); err != nil || !reflect.DeepEqual(read, s) {
			t.Errorf("%s is read as %+v, %v", b, read, err)
		}
	}
	for _, wrong := range []string{"", "{", `{"to":"b"} x`, `{"size":"5"}`, `{"size":1e9}`, `{"digest":"?"}`, `{"principal":"e"}`} {
		if s, err := readSigned([]byte(wrong)); err == nil {
			t.Errorf("%s is read as %+v", wrong, s)
		}
	}
}

// TestPieces: a response with a length is flushed as buffers fill, a stream after each read.
func TestPieces(t *testing.T) {
	c := cluster(t)
	for name, tt := range map[string]struct {
		length string
		least  int // the head, and what there is at once
		most   int
	}{"whole": {"2", 0, 0}, "stream": {"", 2, 3}} {
		c.start(name, func(w http.ResponseWriter, _ *http.Request, _ Passage) {
			for _, s := range []string{"o", "k"} {
				if tt.length != "" {
					w.Header().Set("Content-Length", tt.length)
				}
				io.WriteString(w, s)
				http.NewResponseController(w).Flush()
			}
		})
		a := c.start("a", nobody)
		w := httptest.NewRecorder()
		counted := &flushes{ResponseWriter: w}
		r := httptest.NewRequest("POST", "/mcp", nil)
		if err := a.Forward(counted, r, Passage{To: name, Kind: Session}); err != nil || w.Body.String() != "ok" {
			t.Fatalf("%s: %q, %v", name, w.Body, err)
		}
		if counted.n < tt.least || counted.n > tt.most {
			t.Errorf("%s: flushed %d times, want %d to %d", name, counted.n, tt.least, tt.most)
		}
	}
}

type flushes struct {
	http.ResponseWriter
	n int
}

func (f *flushes) Flush() { f.n++ }

// TestEndToEnd: hop-by-hop headers are not forwarded, in either direction; headers that both sides set are kept.
func TestEndToEnd(t *testing.T) {
	c := cluster(t)
	got := make(chan http.Header, 1)
	c.start("b", func(w http.ResponseWriter, r *http.Request, _ Passage) {
		got <- r.Header
		w.Header().Set("Connection", "x-mine")
		w.Header().Set("X-Mine", "1")
		w.Header().Add("Access-Control-Allow-Origin", "y")
	})
	a := c.start("a", nobody)
	resp, _ := send(t, "POST", a.url, "b", "x", "Connection", "x-hop", "X-Hop", "1", "Te", "trailers", "Upgrade", "h2c", "Proxy-Authorization", "p", "X-Kept", "1")
	h := <-got
	for name, want := range map[string]string{"Connection": "", "X-Hop": "", "Te": "", "Upgrade": "", "Proxy-Authorization": "", "X-Kept": "1"} {
		if h.Get(name) != want {
			t.Errorf("the request has %s: %q, want %q", name, h.Get(name), want)
		}
	}
	if h := resp.Header; resp.Close || h.Get("X-Mine") != "" || !reflect.DeepEqual(h["Access-Control-Allow-Origin"], []string{"x", "y"}) {
		t.Errorf("the answer has %v, closed %t", h, resp.Close)
	}
}

// TestShutdownEndsSilentConnections: a connection on which nothing was ever sent delays the end of the port only for a
// moment: net/http alone would wait five seconds for it.
func TestShutdownEndsSilentConnections(t *testing.T) {
	err := silentEnd(t)
	for try := 1; err != nil && try < 3; try++ { // a machine may stand still for seconds
		err = silentEnd(t)
	}
	if err != nil {
		t.Errorf("the port did not end: %v", err)
	}
}

// silentEnd ends a port with a silent connection, within less than net/http takes.
func silentEnd(t *testing.T) error {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan struct{}, 1)
	p := NewPeers(PeerOptions{Ring: ringOf(t, "k"), Space: "vmcp", Self: "a", Address: cluster(t).address, Serve: nobody})
	defer p.Close()
	p.server.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			taken <- struct{}{}
		}
	}
	go p.Listen(edge.Listener(tcp))
	c, err := net.Dial("tcp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-taken
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	return p.Shutdown(ctx)
}

// TestShutdownWaits: the port of a replica that leaves is open until the requests that it has started have ended, so that
// their senders do not take it for one that is gone. After that it is closed.
func TestShutdownWaits(t *testing.T) {
	c := cluster(t)
	a, release := c.start("a", nobody), make(chan struct{})
	b := c.start("b", func(w http.ResponseWriter, r *http.Request, _ Passage) {
		if r.URL.Path == "/slow" {
			<-release
		}
		io.WriteString(w, "done")
	})
	slow, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		_, text := send(t, "POST", a.url+"/slow", "b", "x")
		slow <- text
	}()
	testkit.Eventually(t, "a request that the other one has begun", func() bool { return a.begun("b") })
	go func() { ended <- b.Shutdown(t.Context()) }()
	testkit.Eventually(t, "the end is waited for", func() bool {
		b.serving.mu.Lock()
		defer b.serving.mu.Unlock()
		return b.serving.ended != nil
	})
	a.hangUp()
	if _, text := send(t, "POST", a.url, "b", "x"); text != "done" {
		t.Errorf("a request on a new connection, while another is in flight: %q", text)
	}
	if err := <-a.errs; err != nil {
		t.Errorf("a request while another is in flight: %v", err)
	}
	close(release)
	if text := <-slow; text != "done" {
		t.Errorf("the request in flight has %q", text)
	}
	if err := errors.Join(<-a.errs, <-ended); err != nil {
		t.Error(err)
	}
	send(t, "POST", a.url, "b", "x")
	if err := <-a.errs; !errors.Is(err, errGone) {
		t.Errorf("a request after the end: %v, want %v", err, errGone)
	}
}

// TestClosedPortIsNoSilence: requests in flight to a replica whose port is closed are left to their connections.
func TestClosedPortIsNoSilence(t *testing.T) {
	if a := cluster(t).start("a", nobody); !a.alive(&peer{id: "b", addr: testkit.NobodyListens}) {
		t.Error("a replica whose port is closed counts as one that does not answer")
	}
}
