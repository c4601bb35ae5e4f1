// Package replicas has a load balancer for tests that does not parse MCP, and starts three replicas of vmcp serve behind it.
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

// A Balancer distributes requests over replicas round robin, without affinity and without reading headers. It
// never retries a request. It sends requests to the replicas whose /readyz answered 200, with a delay, like real load balancers.
type Balancer struct {
	URL  string        // of the endpoint
	late time.Duration // delay between a change of /readyz and its effect

	proxy httputil.ReverseProxy
	stop  context.CancelFunc
	work  sync.WaitGroup

	mu      sync.Mutex
	targets []*target // guarded by mu, with their fields
	turn    int
}

// A target is the balancer's state of a replica.
type target struct {
	host  string
	got   int // requests
	seen  []view
	codes map[int]int // statuses of /readyz, 0 for no answer
}

// A view is the result of /readyz from a time on.
type view struct {
	since time.Time
	ready bool
}

// NewBalancer starts a balancer in front of hosts. With kept it reuses connections to them.
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

// rewrite reads the whole body first. Otherwise ReverseProxy cuts off a response that begins before it has read the end of the body, because
// the server closes the body with the first byte of the response.
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

// next returns the host of the next ready replica, "" when none is ready.
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

// readyAt reports whether the replica was known to be ready at a time; before the first poll of /readyz, the result of that poll.
func (t *target) readyAt(when time.Time) bool {
	for i := len(t.seen) - 1; i > 0; i-- {
		if !t.seen[i].since.After(when) {
			return t.seen[i].ready
		}
	}
	return len(t.seen) > 0 && t.seen[0].ready
}

// follow polls /readyz until ctx ends.
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

// look reads /readyz over a new connection.
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

// StatusOf is the status of a GET over a new connection, 0 without a response.
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

// Counts are the numbers of requests that were sent to each replica.
func (b *Balancer) Counts() (got []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.targets {
		got = append(got, t.got)
	}
	return got
}

// Answers is the number of responses of a replica's /readyz with a status.
func (b *Balancer) Answers(replica, status int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.targets[replica].codes[status]
}

// once is a transport that sends a request over one connection only: http.Transport would retry on another one when a reused
// connection is closed.
type once struct{ *http.Transport }

var errRepeated = errors.New("the connection was closed during the request, which is not retried")

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

// Write would be called for responses that switch protocols, which this balancer does not support.
func (b *body) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }
