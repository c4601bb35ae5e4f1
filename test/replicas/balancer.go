// Package replicas has a load balancer for tests that knows nothing of MCP, and three replicas of vmcp serve behind it.
package replicas

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"sync"
	"testing"
	"time"
)

// A Balancer distributes requests over replicas in turn. It knows nothing of MCP: no affinity, no header is looked at. It
// never repeats a request, and it sends to a replica for as long as it believes that /readyz answers 200, which it learns late.
type Balancer struct {
	URL  string        // of the endpoint
	late time.Duration // how long after a change of /readyz it reacts

	proxy httputil.ReverseProxy
	stop  context.CancelFunc
	work  sync.WaitGroup

	mu      sync.Mutex
	targets []*target // guarded by mu, as what they hold
	turn    int
}

// A target is a replica as the balancer sees it.
type target struct {
	host  string
	got   int // requests
	seen  []view
	codes map[int]int // statuses of /readyz, 0 for no answer
}

// A view is what /readyz said from a moment on.
type view struct {
	since time.Time
	ready bool
}

// NewBalancer starts a balancer in front of hosts. With kept it keeps its connections to them.
func NewBalancer(t testing.TB, kept bool, late time.Duration, hosts ...string) *Balancer {
	t.Helper()
	b := &Balancer{late: late}
	for _, h := range hosts {
		b.targets = append(b.targets, &target{host: h, codes: map[int]int{}})
	}
	b.proxy = httputil.ReverseProxy{
		Rewrite:       rewrite,
		Transport:     once{&http.Transport{DisableKeepAlives: !kept, MaxIdleConnsPerHost: 64}},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "balancer: "+err.Error(), http.StatusBadGateway)
		},
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	for _, target := range b.targets {
		b.look(ctx, target)
		b.work.Go(func() { b.follow(ctx, target) })
	}
	front := httptest.NewServer(b)
	b.URL = front.URL + "/mcp"
	t.Cleanup(func() {
		stop()
		b.work.Wait()
		front.CloseClientConnections()
		front.Close()
	})
	return b
}

// rewrite reads the body first. Otherwise ReverseProxy cuts off an answer that comes before it has seen the end of the body, which
// the server closes with the first byte that goes back.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme = "http"
	if r.In.Body != nil && r.In.ContentLength != 0 {
		text, err := io.ReadAll(r.In.Body)
		if err != nil {
			text = nil // the replica refuses it
		}
		r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	}
}

// ServeHTTP sends a request to the next replica.
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := b.next()
	if host == "" {
		http.Error(w, "balancer: no replica is ready", http.StatusServiceUnavailable)
		return
	}
	r.URL.Host = host
	b.proxy.ServeHTTP(w, r)
}

// next is whose turn it is, "" when nobody is ready.
func (b *Balancer) next() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.targets {
		t := b.targets[b.turn%len(b.targets)]
		b.turn++
		if t.readyAt(time.Now().Add(-b.late)) {
			t.got++
			return t.host
		}
	}
	return ""
}

// readyAt is what was known at a moment; of the time before the first look it is what that saw.
func (t *target) readyAt(when time.Time) bool {
	for i := len(t.seen) - 1; i > 0; i-- {
		if !t.seen[i].since.After(when) {
			return t.seen[i].ready
		}
	}
	return len(t.seen) > 0 && t.seen[0].ready
}

// follow looks at /readyz until ctx ends.
func (b *Balancer) follow(ctx context.Context, t *target) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.look(ctx, t)
		case <-ctx.Done():
			return
		}
	}
}

// look asks /readyz over a new connection.
func (b *Balancer) look(ctx context.Context, t *target) {
	code := StatusOf(ctx, "http://"+t.host+"/readyz")
	if ctx.Err() != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t.codes[code]++
	if ready := code == http.StatusOK; len(t.seen) == 0 || t.seen[len(t.seen)-1].ready != ready {
		t.seen = append(t.seen, view{time.Now(), ready})
	}
}

// StatusOf is the status of a GET over a new connection, 0 without an answer.
func StatusOf(ctx context.Context, url string) int {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	r.Close = true
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// Counts are the requests that each replica got.
func (b *Balancer) Counts() (got []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.targets {
		got = append(got, t.got)
	}
	return got
}

// Answers are how often /readyz of a replica had a status.
func (b *Balancer) Answers(replica, status int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.targets[replica].codes[status]
}

// once is a transport that sends a request over one connection: http.Transport would take another one when a kept connection
// turns out to be closed.
type once struct{ *http.Transport }

var errRepeated = errors.New("the connection was closed under the request, which is not repeated")

// RoundTrip implements [http.RoundTripper].
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	connections := 0
	trace := &httptrace.ClientTrace{GetConn: func(string) {
		if connections++; connections > 1 {
			cancel(errRepeated)
		}
	}}
	resp, err := o.Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &body{resp.Body, cancel}
	return resp, nil
}

// body ends the context of its request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// Write is for answers that switch protocols, which this balancer does not.
func (b *body) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }
